package disk

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

// smallFSEnv names a directory on a file system that is smaller than the budget of the test, for example
//
//	mount -t tmpfs -o size=64m tmpfs /mnt/small
const smallFSEnv = "SWRPROXY_SMALL_FS"

// A budget larger than the file system, and bodies that come faster than it takes them: no write fails, no record is damaged, and the
// latest are there.
func TestSmallFileSystem(t *testing.T) { onSmallFS(t, smallFileSystem) }

func smallFileSystem(t *testing.T, mount string) {
	dir, err := os.MkdirTemp(mount, "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ev := newEvents()
	s := open(t, Options{Path: dir, Max: 1 << 30, Notify: ev.notify, RetryFirst: 10 * time.Millisecond, RetryMax: 20 * time.Millisecond})
	hits, last := 0, 0
	for i := range 600 {
		size := 1 << 20
		if i%4 == 0 {
			size = i * 7919 % (64 << 10)
		}
		switch got := s.Put(cachetest.Record(fmt.Sprint("key/", i), uint64(i+1), size)); got {
		case cache.PutStored:
			last = i
		case cache.PutRefused:
			time.Sleep(time.Millisecond) // the disk is failing: give it the time that a client would
		default:
			t.Errorf("put: %v", got)
		}
		if r, ok := s.Get(fmt.Sprint("key/", i/2)); ok {
			// A body may be evicted before it is opened, and is a miss then; had its record still been there it would count as damaged.
			if err := cachetest.Verify(r.Key, r); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			hits++
		}
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Errorf("Sync: %v", err)
	}
	if _, ok := s.Get(fmt.Sprint("key/", last)); !ok {
		t.Errorf("the latest record, %d, is not there", last)
	}
	st, m := s.Stats(), s.Metrics()
	t.Logf("%d hits, %d records, %d bytes, evicted %d, %+v, %+v, events %v", hits, st.Records, st.Bytes, st.Evicted, m, spaceOf(dir), ev.kinds())
	if st.Damaged != 0 || st.Records < 10 {
		t.Errorf("stats %+v", st)
	}
	cachetest.CheckInvariants(t, s)
}

// Somebody else fills the file system: reads go on, and writes do again once there is room.
func TestFullFileSystem(t *testing.T) { onSmallFS(t, fullFileSystem) }

func fullFileSystem(t *testing.T, mount string) {
	dir, err := os.MkdirTemp(mount, "store")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := open(t, Options{Path: dir, Max: 1 << 30, RetryFirst: 10 * time.Millisecond, RetryMax: 20 * time.Millisecond})
	fill(t, s, 1)
	other, err := os.Create(dir + ".other")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other.Name())
	for p := make([]byte, 64<<10); err == nil; {
		_, err = other.Write(p)
	}
	wantFilled(t, s, 1)
	for i := range 100 {
		s.Put(cachetest.Record(fmt.Sprint("more/", i), 1, i*i*100))
		_ = s.Sync(t.Context()) // fails, or makes room by evicting
	}
	cachetest.CheckInvariants(t, s)
	if err := other.Truncate(0); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(5 * time.Second)
	for s.Sync(t.Context()) != nil && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond) // the store's own clock decides when it tries again
	}
	fill(t, s, 2)
	wantFilled(t, s, 2)
}
