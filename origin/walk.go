package origin

import "slices"

// walk is one exchange's way through the URLs: where it began and which it has tried.
type walk struct {
	start uint64
	tried []*target
}

// pick chooses the next URL not tried yet: the first usable one in turn, or, if all are down, the first in turn.
func (p *Pool) pick(w *walk) (t *target, probe bool) {
	if len(p.targets) == 1 {
		w.tried = p.targets
		return p.targets[0], false
	}
	t, probe = p.pickUsable(w)
	if t == nil {
		t = p.pickAny(w)
	}
	w.tried = append(w.tried, t)
	return t, probe
}

func (p *Pool) pickUsable(w *walk) (t *target, probe bool) {
	for i := range p.targets {
		t := p.inTurn(w, i)
		if slices.Contains(w.tried, t) {
			continue
		}
		if ok, probe := t.health.usable(p.now); ok {
			return t, probe
		}
	}
	return nil, false
}

func (p *Pool) pickAny(w *walk) *target {
	for i := range p.targets {
		if t := p.inTurn(w, i); !slices.Contains(w.tried, t) {
			return t
		}
	}
	return p.inTurn(w, 0) // not reached: exchange stops when all were tried
}

func (p *Pool) inTurn(w *walk, i int) *target {
	return p.targets[(w.start+uint64(i))%uint64(len(p.targets))]
}
