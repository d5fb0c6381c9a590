package memory

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// Whatever was put or deleted last is what the next Get sees, wherever the settler has moved records meanwhile.
func TestGetSeesTheLastChange(t *testing.T) {
	const keys = 400
	s := open(t, 64<<20)
	r := rand.New(rand.NewPCG(1, 2))
	var want [keys]uint64 // tokens, 0 for none
	for token := uint64(1); token <= 40_000; token++ {
		i := r.IntN(keys)
		p := plain(i)
		switch r.IntN(4) {
		case 0:
			p.Token = token
			s.Put(p)
			want[i] = token
		case 1:
			if there := s.Delete(p.Key, token); there != (want[i] != 0) {
				t.Fatalf("token %d: deleting record %d: %t", token, i, there)
			}
			want[i] = 0
		}
		if token%1000 == 0 {
			settleAll(s)
		}
		i = r.IntN(keys)
		rec, ok := s.Get(plain(i).Key)
		if ok != (want[i] != 0) || ok && rec.Token != want[i] {
			t.Fatalf("token %d: record %d: %v, %t, want %d", token, i, rec, ok, want[i])
		}
	}
	packing(t, s)
}

// Readers see whole records of the key that they ask for, and never an older one after a newer, while records come, go and are moved.
func TestReadersDuringChanges(t *testing.T) {
	const keys, rounds = 50, 3000
	s := open(t, 256<<10) // holds a part of them
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			var last [keys]uint64
			for ctx.Err() == nil {
				i := r.IntN(keys)
				rec, ok := s.Get(plain(i).Key)
				switch {
				case !ok:
				case rec.Key != plain(i).Key || rec.Body.Size() != 1024:
					t.Errorf("asked for record %d, got %q", i, rec.Key)
				case rec.Token < last[i]:
					t.Errorf("record %d: token %d after %d", i, rec.Token, last[i])
				default:
					last[i] = rec.Token
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(3, 4))
	for token := uint64(1); token <= rounds; token++ {
		p := plain(r.IntN(keys))
		if p.Token = token; token%7 == 0 {
			s.Delete(p.Key, token)
		} else {
			s.Put(p)
		}
		if token%200 == 0 {
			settleAll(s)
		}
	}
	stop()
	readers.Wait()
	cachetest.CheckInvariants(t, s)
	packing(t, s)
}
