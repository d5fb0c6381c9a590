package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sort"
	"testing"
)

// BenchmarkHitRatio reads twenty times as many keys as fit, some far more often than others, and stores what is missing. The favourites change
// on the way. It tells which part of the reads were hits; time says little here.
func BenchmarkHitRatio(b *testing.B) {
	for _, fit := range []int{500, 1000} {
		for _, skew := range []float64{0.8, 1} {
			b.Run(fmt.Sprintf("fit=%d/skew=%g", fit, skew), func(b *testing.B) {
				var hits float64
				rounds := 0
				for b.Loop() {
					hits += hitRatio(b, fit, skew)
					rounds++
				}
				b.ReportMetric(hits/float64(rounds), "hits/read")
			})
		}
	}
}

func hitRatio(b *testing.B, fit int, skew float64) float64 {
	s := open(b, int64(fit)*plain(0).Cost())
	r := rand.New(rand.NewPCG(1, 2))
	keys, upTo := r.Perm(20*fit), make([]float64, 20*fit) // upTo is how likely each key or one before it is
	sum := 0.0
	for i := range upTo {
		sum += math.Pow(float64(i+1), -skew)
		upTo[i] = sum
	}
	warm, all, hits := 20*fit, 100*fit, 0
	for i := range all {
		if i == all/2 {
			keys = r.Perm(len(keys))
		}
		p := plain(keys[sort.SearchFloat64s(upTo, r.Float64()*sum)])
		p.Token = uint64(i)
		_, ok := s.Get(p.Key)
		if ok && i >= warm {
			hits++
		}
		if !ok {
			s.Put(p)
		}
		if i%16 == 0 {
			s.settle.pass(s)
			runtime.Gosched() // ristretto's goroutine counts reads
		}
	}
	return float64(hits) / float64(all-warm)
}
