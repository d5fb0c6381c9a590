package cachetest

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// Budget is what the store under test must be able to hold, in bytes; the suite puts less than half of it at once, except where it
// fills the store on purpose.
const Budget = 8 << 20

// Open makes an empty store with a budget of at least [Budget]. The suite closes it.
type Open func(t *testing.T) cache.Store

// Run runs the contract suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, cache.Store){
		"an empty store has nothing":                 testEmpty,
		"a put is seen by the next get":              testPutGet,
		"all of a record comes back":                 testRoundTrip,
		"the key given to Get may be reused":         testKeyNotKept,
		"an update wins":                             testUpdate,
		"an update that grows and shrinks wins":      testResize,
		"an older token does not win":                testOlder,
		"an older token does not win after a delete": testOlderAfterDelete,
		"an equal token replaces":                    testEqualToken,
		"delete minds the token":                     testDelete,
		"delete right after put":                     testDeleteAtOnce,
		"put right after delete":                     testPutAfterDelete,
		"walk lists all":                             testWalk,
		"walk may change the store":                  testWalkChanges,
		"a record above the budget is refused":       testTooLarge,
		"a body of the store's limit is taken":       testBodyLimit,
		"the budget is kept":                         testBudget,
		"counters tell purges apart":                 testPurgeCount,
		"random operations agree with a model":       testModel,
		"readers never see time go backwards":        testRace,
		"sets and deletes race":                      testDeleteRace,
		"close while in use":                         testCloseInUse,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { finish(t, s) })
			test(t, s)
		})
	}
	for name, test := range findTests {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { finish(t, s) })
			if f, ok := s.(cache.Finder); ok {
				test(t, s, f)
			}
		})
	}
}

// finish checks s, closes it, and checks that it stays quiet.
func finish(t *testing.T, s cache.Store) {
	t.Helper()
	CheckInvariants(t, s)
	// The test's own context has ended by now.
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, ok := s.Get("a"); ok {
		t.Error("a closed store returned a record")
	}
	if _, ok := getMemory(s, "a"); ok {
		t.Error("a closed store returned a record from memory")
	}
	if got := s.Put(Record("a", math.MaxUint64, 1)); got != cache.PutRefused {
		t.Errorf("Put into a closed store: %v, want %v", got, cache.PutRefused)
	}
	if s.Delete("a", math.MaxUint64) {
		t.Error("a closed store deleted a record")
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// CheckInvariants checks what must hold whenever nobody uses s: no key is listed twice, each listed record can be read under its
// own key, is whole, and is the one that Get returns; the gauges agree with the list and with the budget.
func CheckInvariants(t testing.TB, s cache.Store) {
	t.Helper()
	settle(t, s)
	listed := checkWalk(t, s)
	settle(t, s) // reads may have promoted records, and others have gone for them
	checkFind(t, s)
	for name, st := range tiers(s) {
		if st.Bytes > st.Max || st.Bytes < 0 {
			t.Errorf("%s holds %d bytes of at most %d", name, st.Bytes, st.Max)
		}
		exact := len(tiers(s)) == 1 // what one tier lacks another may have
		if listed >= 0 && (st.Records > listed || exact && st.Records != listed) {
			t.Errorf("%s counts %d records, walk lists %d", name, st.Records, listed)
		}
	}
}

// settle is Sync where the store may be closed or failing.
func settle(t testing.TB, s cache.Store) {
	t.Helper()
	if s, ok := s.(syncer); ok {
		if err := s.Sync(context.Background()); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sync: %v", err)
		}
	}
}

// tiers returns the figures of s, or of each of its tiers; none if it does not count.
func tiers(s cache.Store) map[string]cache.StoreStats {
	switch s := s.(type) {
	case interface {
		Tiers() map[string]cache.StoreStats
	}:
		return s.Tiers()
	case cache.StatsSource:
		return map[string]cache.StoreStats{"store": s.Stats()}
	default:
		return nil
	}
}

// checkWalk returns the number of records listed, −1 if s cannot list.
func checkWalk(t testing.TB, s cache.Store) int64 {
	t.Helper()
	w, ok := s.(cache.Walker)
	if !ok {
		return -1
	}
	seen := map[string]bool{}
	w.Walk(func(r *cache.Record) bool {
		if seen[r.Key] {
			t.Errorf("walk lists %q twice", r.Key)
		}
		seen[r.Key] = true
		got, ok := s.Get(r.Key)
		if !ok {
			t.Errorf("walk lists %q, get does not find it", r.Key)
			return true
		}
		if diff := Diff(r, got); diff != "" {
			t.Errorf("walk and get disagree on %q (-walk +get):\n%s", r.Key, diff)
		}
		return true
	})
	return int64(len(seen))
}
