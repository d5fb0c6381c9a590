package disk

import (
	"strconv"
	"testing"

	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// BenchmarkGet looks for records that are there and that are not, among 20,000.
func BenchmarkGet(b *testing.B) {
	s, err := Open(Options{Path: b.TempDir(), Max: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, s)
	const n = 20_000
	keys := make([]string, 2*n)
	for i := range keys {
		keys[i] = "default\x00http://example.org/some/path/" + strconv.Itoa(i)
	}
	for i := range n {
		s.Put(cachetest.Record(keys[i], 1, 1024))
		if i%5000 == 0 {
			flushed(b, s)
		}
	}
	flushed(b, s)
	for name, list := range map[string][]string{"stored": keys[:n], "missing": keys[n:]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := s.Get(list[i%n]); ok != (name == "stored") {
					b.Fatalf("%q: found %t", list[i%n], ok)
				}
			}
		})
	}
}
