package cachetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

// model is what a store must show: the latest record of each key, and the highest token that each key ever had.
type model struct {
	token, highest map[string]uint64
}

func testModel(t *testing.T, s cache.Store) {
	rng := random(t)
	m := model{token: map[string]uint64{}, highest: map[string]uint64{}}
	for step := range 4000 {
		key := fmt.Sprintf("key/%d", rng.IntN(20))
		token := uint64(step/10 + rng.IntN(20))
		switch op := rng.IntN(100); {
		case op < 40:
			m.put(t, s, Record(key, token, randomSize(rng)))
		case op < 55:
			m.delete(t, s, key, token)
		case op < 57:
			Sync(t, s)
		default:
			m.get(t, s, key)
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	for key := range m.highest {
		m.get(t, s, key)
	}
}

// randomSize is mostly small and now and then above 64 KiB.
func randomSize(rng *rand.Rand) int {
	if rng.IntN(30) == 0 {
		return 64<<10 + rng.IntN(50<<10)
	}
	return rng.IntN(2000)
}

func (m model) put(t *testing.T, s cache.Store, r *cache.Record) {
	want := cache.PutStored
	if r.Token < m.highest[r.Key] {
		want = cache.PutOlder
	} else {
		m.token[r.Key], m.highest[r.Key] = r.Token, r.Token
	}
	put(t, s, r, want)
}

func (m model) delete(t *testing.T, s cache.Store, key string, token uint64) {
	have, ok := m.token[key]
	want := ok && have <= token
	if got := s.Delete(key, token); got != want {
		t.Errorf("delete %q, token %d: %t, want %t (holds %d)", key, token, got, want, have)
	}
	if want {
		delete(m.token, key)
	}
}

func (m model) get(t *testing.T, s cache.Store, key string) {
	if r, ok := getMemory(s, key); ok && (r.Key != key || r.Token != m.token[key]) {
		t.Errorf("%q: memory shows token %d of %q, want token %d", key, r.Token, r.Key, m.token[key])
	}
	if token, ok := m.token[key]; ok {
		wantToken(t, s, key, token)
	} else {
		wantMiss(t, s, key)
	}
}

// random returns a generator whose seed is logged; CACHETEST_SEED sets it.
func random(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if v := os.Getenv("CACHETEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("CACHETEST_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("CACHETEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
