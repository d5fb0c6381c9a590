package disk

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// recordsEnv is the number of records of TestReadyAtOnce; 20,000 without it.
const recordsEnv = "SWRPROXY_SCALE_RECORDS"

// A store is ready at once, however much is in it: opening reads no records.
func TestReadyAtOnce(t *testing.T) {
	t.Parallel()
	n := 20_000
	if v := os.Getenv(recordsEnv); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", recordsEnv, err)
		}
	}
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Max: 8 << 30})
	start := time.Now()
	for i := range n {
		put(t, s, cachetest.Record(fmt.Sprint("http://example.org/some/path/", i), uint64(i+1), 200))
		if i%5000 == 0 {
			flushed(t, s)
		}
	}
	shut(t, s)
	t.Logf("%d records written in %v", n, time.Since(start))
	start = time.Now()
	s, err := Open(Options{Path: dir, Max: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	for i := range 10 {
		if _, ok := s.Get(fmt.Sprint("http://example.org/some/path/", i*n/10)); !ok {
			t.Errorf("record %d is not there", i*n/10)
		}
	}
	took := time.Since(start)
	t.Logf("%d records: ready and ten of them read after %v; %+v", s.Stats().Records, took, s.Metrics())
	if took > 2*time.Second || s.Stats().Records != int64(n) {
		t.Errorf("%d of %d records, ready after %v", s.Stats().Records, n, took)
	}
}

// BenchmarkPut is the rate at which records go through the queue to disk.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 128 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := Open(Options{Path: b.TempDir(), Max: 256 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer shut(b, s)
			body := cachetest.Content("a", 1, size)
			b.SetBytes(int64(size))
			i := 0
			for b.Loop() {
				r := cachetest.Record(strconv.Itoa(i), 1, 0)
				r.Body = cache.MemoryBody(body)
				s.Put(r)
				if i++; i%(16<<20/(size+1000)) == 0 {
					flushed(b, s)
				}
			}
			flushed(b, s)
		})
	}
}
