package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// damaged opens a store whose content was spoiled behind its back.
func damaged(t *testing.T, spoil func(t *testing.T, dir string)) (*Store, events) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	fill(t, s, 1)
	shut(t, s)
	spoil(t, dir)
	ev := newEvents()
	return open(t, Options{Path: dir, Notify: ev.notify}), ev
}

func spoilFiles(f func(t *testing.T, path string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, path := range bodyFiles(t, dir) {
			f(t, path)
		}
	}
}

func bodyFiles(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "bodies", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func flip(t *testing.T, path string) {
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, int64(len(p)/2), []byte{p[len(p)/2] ^ 1})
}

func flipValues(bucket []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		editIndex(t, dir, func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			return b.ForEach(func(k, v []byte) error {
				v = slices.Clone(v)
				v[len(v)-1] ^= 1
				return b.Put(slices.Clone(k), v)
			})
		})
	}
}

// flipLocations spoils every entry of the index.
func flipLocations(t *testing.T, dir string) {
	editIndex(t, dir, func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketRecent)
		return b.ForEach(func(k, v []byte) error {
			v = slices.Clone(v)
			for i := pairSize - 1; i < len(v); i += pairSize {
				v[i] ^= 1
			}
			return b.Put(slices.Clone(k), v)
		})
	})
}

// No damaged byte leaves: what was spoiled is a miss, counted, and gone; the rest is whole.
func TestDamage(t *testing.T) {
	t.Parallel()
	inFile := []int{maxInline + 1, 3 << 20}
	inDB := []int{1, 1000, maxInline}
	for name, tc := range map[string]struct {
		spoil func(*testing.T, string)
		bad   []int
	}{
		"bit flipped in a body file":          {spoilFiles(flip), inFile},
		"body file cut":                       {spoilFiles(func(t *testing.T, p string) { truncate(t, p, 1000) }), inFile},
		"body file grown":                     {spoilFiles(func(t *testing.T, p string) { truncate(t, p, 10<<20) }), inFile},
		"body file missing":                   {spoilFiles(func(t *testing.T, p string) { _ = os.Remove(p) }), inFile},
		"bit flipped in a body in the index":  {flipValues(bucketBodies), inDB},
		"bit flipped in the metadata":         {flipValues(bucketOrder), append([]int{0}, inDB...)},
		"bit flipped in metadata of files":    {flipValues(bucketFileOrder), inFile},
		"bit flipped in the index":            {flipLocations, sizes},
		"all bodies missing in the index":     {emptyBucket(bucketBodies), inDB},
		"owners of body files missing":        {emptyBucket(bucketFiles), nil},
		"metadata missing":                    {emptyBucket(bucketOrder), append([]int{0}, inDB...)},
		"nothing is wrong, so nothing is bad": {func(*testing.T, string) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ev := damaged(t, tc.spoil)
			misses := 0
			for _, size := range sizes {
				want := cachetest.Record(fmt.Sprint("key/", size), 1, size)
				if !slices.Contains(tc.bad, size) {
					if tc.spoil != nil && name != "owners of body files missing" {
						wantRecord(t, s, want)
					}
					continue
				}
				misses++
				wantUnreadable(t, s, want.Key)
			}
			flushed(t, s)
			for _, size := range tc.bad {
				wantMiss(t, s, fmt.Sprint("key/", size))
			}
			if got := s.Stats().Damaged; got != int64(misses) {
				t.Errorf("%d counted as damaged, want %d", got, misses)
			}
			n := len(slices.DeleteFunc(ev.kinds(), func(k EventKind) bool { return k != EventDamaged }))
			if n != misses {
				t.Errorf("told of %d damaged, want %d", n, misses)
			}
			fill(t, s, 2)
			wantFilled(t, s, 2)
		})
	}
}

func emptyBucket(name []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		editIndex(t, dir, func(tx *bbolt.Tx) error {
			if err := tx.DeleteBucket(name); err != nil {
				return err
			}
			_, err := tx.CreateBucket(name)
			return err
		})
	}
}

// wantUnreadable demands a miss, or a body that can not be opened.
func wantUnreadable(t *testing.T, s cache.Store, key string) {
	t.Helper()
	r, ok := s.Get(key)
	if !ok {
		return
	}
	if f, err := r.Body.Open(); err == nil {
		_ = f.Close()
		t.Errorf("%q: a damaged body opened", key)
	}
}

// Files that a crash left without a record are removed after a start; the others stay.
func TestOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	fill(t, s, 1)
	shut(t, s)
	const n = 600
	for i := range n {
		writeFile(t, filepath.Join(filepath.Dir(bodyFiles(t, dir)[0]), fmt.Sprintf("%016x", i+1)), []byte("orphan"))
	}
	writeFile(t, filepath.Join(dir, "spool", "0000000000000001"), []byte("half a body"))
	if rep := wantSound(t, dir); rep.Orphans != n {
		t.Errorf("Check counts %d orphans, want %d", rep.Orphans, n)
	}
	ev := newEvents()
	s = open(t, Options{Path: dir, Notify: ev.notify})
	for e := range ev.ch {
		if e.Kind == EventOrphans {
			break
		}
	}
	if got := s.Metrics().Orphans; got != n {
		t.Errorf("%d orphans collected, want %d", got, n)
	}
	wantFilled(t, s, 1)
	if got := len(bodyFiles(t, dir)); got != 2 {
		t.Errorf("%d body files left, want 2", got)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "spool")); err != nil || len(left) != 0 {
		t.Errorf("spool holds %v, %v", left, err)
	}
}

func TestCompact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Path: dir, Max: 64 << 20})
	for i := range 300 {
		put(t, s, cachetest.Record(fmt.Sprint("old/", i), 1, 50_000))
	}
	fill(t, s, 1)
	for i := range 300 {
		s.Delete(fmt.Sprint("old/", i), 1)
	}
	shut(t, s)
	before, after, err := Compact(dir)
	if err != nil || after > before/4 {
		t.Errorf("Compact: %d to %d bytes, %v", before, after, err)
	}
	wantSound(t, dir)
	s = open(t, Options{Path: dir})
	wantFilled(t, s, 1)
}
