package main

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The crowd's origin tells how many requests it had at once, and counts anew.
func TestCrowdCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowdOrigin{}
		c.delay.Store(int64(crowdDelay))
		for _, at := range []int{3, 1} {
			var wg sync.WaitGroup
			for range at {
				wg.Go(func() { c.answer(httptest.NewRecorder(), nil) })
			}
			start := time.Now()
			wg.Wait()
			if took := time.Since(start); took != crowdDelay {
				t.Errorf("answers took %s", took)
			}
			if most, answered := c.most.Swap(0), c.answered.Swap(0); most != int64(at) || answered != int64(at) {
				t.Errorf("at most %d at once, %d answered, want %d", most, answered, at)
			}
		}
	})
}

func TestCrowdBegins(t *testing.T) {
	c := &crowdOrigin{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /begin/{delay}", c.begin)
	s := httptest.NewServer(mux)
	defer s.Close()
	c.most.Store(5)
	c.answered.Store(9)
	outside := &crowd{addr: s.Listener.Addr().String()}
	var got [2][2]int
	for i := range got {
		var err error
		if got[i][0], got[i][1], err = outside.begin(t.Context(), s.Client(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([2][2]int{{5, 9}, {0, 0}}, got); diff != "" {
		t.Error(diff)
	}
	if d := time.Duration(c.delay.Load()); d != time.Second {
		t.Errorf("the delay is %s", d)
	}
}

func TestCrowdIsChecked(t *testing.T) {
	b := &bench{}
	hits := []pacedWorker{{spans: make([]time.Duration, 10)}}
	for name, c := range map[string]struct {
		sub      string
		requests int64
		most     int
		ok       bool
	}{
		"calm":                   {calm, 10, 0, true},
		"purged":                 {purged, 10, crowdFills, true},
		"a miss":                 {purged, 11, 1, false},
		"more fills than may be": {purged, 10, crowdFills + 1, false},
		"nothing was refreshed":  {purged, 10, 0, false},
	} {
		if err := b.crowdKept(subject{name: c.sub}, load{requests: c.requests}, hits, c.most); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJudgeP99(t *testing.T) {
	s := scenario{subjects: []string{calm, purged}, targets: []target{{than: calm, p99Ratio: 2}}}
	for p99, missed := range map[time.Duration]bool{200: false, 201: true} {
		j := judge(s, result{Subjects: []series{{Name: calm, Samples: []sample{{P99: 100}}}, {Name: purged, Samples: []sample{{P99: p99}}}}})[0]
		if j.missed() != missed {
			t.Errorf("p99 of %d against 100: %s", p99, j.sentence())
		}
	}
}
