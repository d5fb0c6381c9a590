package cache

import (
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/swrproxy/swrproxy/policy"
)

// rule is a Rule made ready. Immutable.
type rule struct {
	name     string
	origin   string
	match    *policy.Match
	key      *policy.Key
	settings policy.Settings
	upstream http.RoundTripper
	via      upstream // upstream as one, nil if there is none
	pass     bool
	// slots bounds the fills of the origin, nil for no bound.
	slots *semaphore.Weighted
}

// ruleSet is what SetRules swaps in whole. Immutable.
type ruleSet struct {
	rules []*rule
}

// SetRules replaces the rules for all requests that come from now on; requests and fills under way keep the old ones.
// Records stay, under the names of their rules. On an error nothing changes.
func (c *Cache) SetRules(rules []Rule) error {
	if len(rules) == 0 {
		rules = []Rule{{Name: "default"}}
	}
	set := &ruleSet{}
	seen := make(map[string]bool)
	for i, r := range rules {
		if r.Name == "" || seen[r.Name] {
			return fmt.Errorf("cache: Rules[%d].Name %q: each rule needs a name of its own", i, r.Name)
		}
		seen[r.Name] = true
		made, err := newRule(r)
		if err != nil {
			return fmt.Errorf("cache: Rules[%d] %q: %w", i, r.Name, err)
		}
		made.slots = c.slotsOf(made.origin)
		set.rules = append(set.rules, made)
	}
	c.rules.Store(set)
	return nil
}

func newRule(r Rule) (*rule, error) {
	match, err := policy.NewMatch(r.Match)
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	spec := r.Key
	spec.Space = r.Name
	key, err := policy.NewKey(spec)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return &rule{
		name:     r.Name,
		origin:   orDefault(r.Origin, r.Name),
		match:    match,
		key:      key,
		settings: canonical(r.Policy),
		upstream: r.Upstream,
		via:      viaOf(r.Upstream),
		pass:     r.Pass,
	}, nil
}

func viaOf(rt http.RoundTripper) upstream {
	if rt == nil {
		return nil
	}
	return proxied{rt}
}

// canonical returns s with the names of fields as they stand in a header, which saves making them so for every response.
func canonical(s policy.Settings) policy.Settings {
	for i, name := range s.Targets {
		if i == 0 {
			s.Targets = slices.Clone(s.Targets)
		}
		s.Targets[i] = http.CanonicalHeaderKey(name)
	}
	return s
}

// find returns the first rule that matches, nil if none does.
func (s *ruleSet) find(t *policy.Target) *rule {
	for _, r := range s.rules {
		if r.match.Matches(t) {
			return r
		}
	}
	return nil
}

// hasSlot tells whether the origin has a fill place left. By the time a fill asks it may be gone.
func (r *rule) hasSlot() bool {
	if r.slots == nil {
		return true
	}
	if !r.slots.TryAcquire(1) {
		return false
	}
	r.slots.Release(1)
	return true
}
