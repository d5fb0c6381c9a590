package cache_test

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
	"github.com/swrproxy/swrproxy/cache/memory"
	"github.com/swrproxy/swrproxy/cache/tiered"
)

// modelStore is a store of the model. It has all interfaces of the store in it, and the troubles of the schedule.
type modelStore interface {
	cache.Store
	cache.Walker
	cache.StatsSource
	Sync(context.Context) error
	// inner is the store without the troubles.
	inner() cache.Store
}

// troubles are what a store of the model does that the one in it does not: it loses the processor at bad moments, takes its time to walk and lists
// what there was when it began, and refuses records as a failing disk does. It may do all of that. Safe for concurrent use.
type troubles struct {
	m       *model
	mu      sync.Mutex // guards rng
	rng     *rand.Rand
	slow    bool
	refuses bool
}

func (tr *troubles) roll(n int) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.rng.IntN(n)
}

// yield lets others run, now and then.
func (tr *troubles) yield() {
	if tr.roll(3) == 0 {
		for range tr.roll(20) {
			runtime.Gosched()
		}
	}
}

func (tr *troubles) get(s cache.Store, key string) (*cache.Record, bool) {
	tr.yield()
	rec, ok := s.Get(key)
	tr.yield()
	return rec, ok
}

func (tr *troubles) put(s cache.Store, r *cache.Record) cache.PutResult {
	tr.yield()
	if tr.refuses && !tr.m.quiet.Load() && tr.roll(8) == 0 {
		over := tr.m.truth.touched(tr.m, "refusal", allURLs...) // the key of an index does not tell its URL
		defer over()
		s.Delete(r.Key, r.Token)
		return cache.PutRefused
	}
	defer tr.yield()
	return s.Put(r)
}

func (tr *troubles) del(s cache.Store, key string, token uint64) bool {
	tr.yield()
	defer tr.yield()
	return s.Delete(key, token)
}

func (tr *troubles) walk(s cache.Walker, f func(*cache.Record) bool) {
	if !tr.slow {
		s.Walk(func(r *cache.Record) bool {
			tr.yield()
			return f(r)
		})
		return
	}
	tr.list(s.Walk, f)
}

// list goes through what all lists, at its own pace.
func (tr *troubles) list(all func(func(*cache.Record) bool), f func(*cache.Record) bool) {
	var list []*cache.Record
	all(func(r *cache.Record) bool {
		list = append(list, r)
		return true
	})
	for _, r := range list {
		if tr.roll(4) == 0 && !tr.m.quiet.Load() {
			time.Sleep(grid(tr.roll(60)))
		}
		if !f(r) {
			return
		}
	}
}

// find finds what the store finds, and takes its time as walk does.
func (tr *troubles) find(s cache.Finder, term string, f func(*cache.Record) bool) {
	if !tr.slow {
		s.Find(term, func(r *cache.Record) bool {
			tr.yield()
			return f(r)
		})
		return
	}
	tr.list(func(f func(*cache.Record) bool) { s.Find(term, f) }, f)
}

type memoryInTrouble struct {
	*memory.Store
	*troubles
}

func (s memoryInTrouble) inner() cache.Store                   { return s.Store }
func (s memoryInTrouble) Get(key string) (*cache.Record, bool) { return s.get(s.Store, key) }
func (s memoryInTrouble) Put(r *cache.Record) cache.PutResult  { return s.put(s.Store, r) }
func (s memoryInTrouble) Delete(key string, token uint64) bool { return s.del(s.Store, key, token) }
func (s memoryInTrouble) Walk(f func(*cache.Record) bool)      { s.walk(s.Store, f) }

func (s memoryInTrouble) Find(term string, f func(*cache.Record) bool) { s.find(s.Store, term, f) }

// walkedOnly is a store that finds nothing by terms.
type walkedOnly struct {
	cache.Store
	memoryInTrouble memoryInTrouble
}

func (s walkedOnly) inner() cache.Store              { return s.memoryInTrouble.Store }
func (s walkedOnly) Walk(f func(*cache.Record) bool) { s.memoryInTrouble.Walk(f) }
func (s walkedOnly) Stats() cache.StoreStats         { return s.memoryInTrouble.Stats() }
func (s walkedOnly) BodyLimit() int64                { return s.memoryInTrouble.BodyLimit() }
func (s walkedOnly) Sync(ctx context.Context) error  { return s.memoryInTrouble.Sync(ctx) }

type diskInTrouble struct {
	*disk.Store
	*troubles
}

func (s diskInTrouble) inner() cache.Store                   { return s.Store }
func (s diskInTrouble) Get(key string) (*cache.Record, bool) { return s.get(s.Store, key) }
func (s diskInTrouble) Put(r *cache.Record) cache.PutResult  { return s.put(s.Store, r) }
func (s diskInTrouble) Delete(key string, token uint64) bool { return s.del(s.Store, key, token) }
func (s diskInTrouble) Walk(f func(*cache.Record) bool)      { s.walk(s.Store, f) }

func (s diskInTrouble) Find(term string, f func(*cache.Record) bool) { s.find(s.Store, term, f) }

type tieredInTrouble struct {
	*tiered.Store
	*troubles
}

func (s tieredInTrouble) inner() cache.Store                   { return s.Store }
func (s tieredInTrouble) Get(key string) (*cache.Record, bool) { return s.get(s.Store, key) }
func (s tieredInTrouble) Put(r *cache.Record) cache.PutResult  { return s.put(s.Store, r) }
func (s tieredInTrouble) Delete(key string, token uint64) bool { return s.del(s.Store, key, token) }
func (s tieredInTrouble) Walk(f func(*cache.Record) bool)      { s.walk(s.Store, f) }

func (s tieredInTrouble) Find(term string, f func(*cache.Record) bool) { s.find(s.Store, term, f) }

// openStore opens the store of a schedule, at dir if it keeps records there.
type openStore func(t *testing.T, dir string, memoryMax int64, tr *troubles) modelStore

var modelStores = map[string]openStore{
	"memory": func(t *testing.T, _ string, budget int64, tr *troubles) modelStore {
		return memoryInTrouble{openMemory(t, budget), tr}
	},
	"walked": func(t *testing.T, _ string, budget int64, tr *troubles) modelStore {
		s := memoryInTrouble{openMemory(t, budget), tr}
		return walkedOnly{s, s}
	},
	"disk": func(t *testing.T, dir string, _ int64, tr *troubles) modelStore {
		return diskInTrouble{openDisk(t, dir), tr}
	},
	"tiered": func(t *testing.T, dir string, budget int64, tr *troubles) modelStore {
		return tieredInTrouble{tiered.New(openMemory(t, budget), openDisk(t, dir)), tr}
	},
}

func openMemory(t *testing.T, budget int64) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Options{Max: budget})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openDisk(t *testing.T, dir string) *disk.Store {
	t.Helper()
	s, err := disk.Open(disk.Options{Path: dir, Max: 64 << 20, Linger: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keepsRecords tells whether a store finds its records again.
func keepsRecords(name string) bool { return name == "disk" || name == "tiered" }

// copyDir copies a store's directory as it is now.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
