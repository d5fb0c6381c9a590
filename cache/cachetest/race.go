package cachetest

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
)

const raceKeys = 8

func raceKey(i uint64) string { return fmt.Sprintf("key/%d", i%raceKeys) }

// testRace has writers with growing tokens, some of which come late, a purger and readers at work on few keys. No reader may see
// a key's token fall, another key's record, or a body that is not its token's.
func testRace(t *testing.T, s cache.Store) {
	const perWriter = 400
	var sequence atomic.Uint64
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range uint64(3) {
		writers.Go(func() {
			for i := range uint64(perWriter) {
				token := sequence.Add(1)
				if i%16 == 5 {
					token -= min(token-1, 10) // a straggler
				}
				s.Put(Record(raceKey(i*7+w), token, int(token%3000)))
			}
		})
	}
	writers.Go(func() {
		for i := range uint64(perWriter / 4) {
			s.Delete(raceKey(i), sequence.Load())
		}
	})
	for range 3 {
		readers.Go(func() { watch(t, s, stop) })
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// watch reads all keys until stop, and once more after it.
func watch(t *testing.T, s cache.Store, stop <-chan struct{}) {
	seen := map[string]uint64{}
	for last := false; !last; {
		select {
		case <-stop:
			last = true
		default:
		}
		for i := range uint64(raceKeys) {
			key := raceKey(i)
			r, ok := getMemory(s, key)
			if !ok || last {
				r, ok = s.Get(key)
			}
			if !ok {
				continue
			}
			if r.Token < seen[key] {
				t.Errorf("%q: token %d after %d", key, r.Token, seen[key])
			}
			seen[key] = r.Token
			if err := Verify(key, r); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// testDeleteRace lets a late set, a purge and the set that follows it race: the purge takes the old record wherever it is, the new
// one survives.
func testDeleteRace(t *testing.T, s cache.Store) {
	for i := range uint64(200) {
		oldToken, purge, newToken := 3*i+1, 3*i+2, 3*i+3
		start := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { <-start; s.Put(Record("a", oldToken, 100)); s.Delete("a", purge) })
		wg.Go(func() { <-start; s.Delete("a", purge) })
		wg.Go(func() { <-start; s.Put(Record("a", newToken, 100)) })
		close(start)
		wg.Wait()
		if i%20 == 0 {
			Sync(t, s)
		}
		wantToken(t, s, "a", newToken)
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
	}
	if !s.Delete("a", math.MaxUint64) {
		t.Error("delete did not find the last record")
	}
	wantMiss(t, s, "a")
}

// testCloseInUse closes a store under its users: none may panic, block or see a wrong record.
func testCloseInUse(t *testing.T, s cache.Store) {
	var wg, warm sync.WaitGroup
	stop := make(chan struct{})
	for w := range uint64(4) {
		warm.Add(1)
		wg.Go(func() {
			for i := uint64(0); ; i++ {
				if i == 50 {
					warm.Done()
				}
				select {
				case <-stop:
					return
				default:
				}
				key := raceKey(i)
				s.Put(Record(key, i*4+w, 500))
				if r, ok := s.Get(key); ok && r.Key != key {
					t.Errorf("%q under %q", r.Key, key)
				}
				s.Delete(raceKey(i+1), i)
			}
		})
	}
	warm.Wait()
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
	close(stop)
	wg.Wait()
}
