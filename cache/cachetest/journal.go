package cachetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swrproxy/swrproxy/cache"
)

// JournalStore is a store that keeps records and invalidations over a restart.
type JournalStore interface {
	cache.Store
	cache.Journal
	cache.Syncer
	MaxToken() uint64
}

// OpenJournal opens the store in a directory, or makes one there. The suite closes it.
type OpenJournal func(t *testing.T, dir string) JournalStore

// RunJournal runs the contract suite of a [cache.Journal].
func RunJournal(t *testing.T, open OpenJournal) {
	for name, test := range map[string]func(*testing.T, *journal){
		"what was saved is there after a restart":     testSaved,
		"what was synced is there after a kill":       testSavedKill,
		"several may have one number":                 testSavedTogether,
		"what was dropped is gone":                    testDropped,
		"what was dropped comes again if it is saved": testSavedAgain,
		"numbers count for the highest token":         testSavedToken,
		"a closed store saves nothing":                testSavedClosed,
	} {
		t.Run(name, func(t *testing.T) {
			j := &journal{t: t, open: open, dir: t.TempDir()}
			j.start()
			t.Cleanup(j.stop)
			test(t, j)
		})
	}
}

// journal is a store that can be opened again.
type journal struct {
	JournalStore
	t    *testing.T
	open OpenJournal
	dir  string
}

func (j *journal) start() { j.JournalStore = j.open(j.t, j.dir) }

func (j *journal) stop() {
	if err := j.Close(context.Background()); err != nil {
		j.t.Errorf("Close: %v", err)
	}
}

func (j *journal) restart() {
	j.stop()
	j.start()
}

// kill goes on with what is on disk after a Sync, as after a kill.
func (j *journal) kill() {
	j.t.Helper()
	dir := j.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(j.dir)); err != nil {
		j.t.Fatal(err)
	}
	j.stop()
	j.dir = dir
	j.start()
}

func (j *journal) save(list ...cache.Invalidation) {
	for _, inv := range list {
		j.SaveInvalidation(inv)
	}
}

// want checks what is there.
func (j *journal) want(list ...cache.Invalidation) {
	j.t.Helper()
	got := j.Invalidations()
	if len(got) == 0 && len(list) == 0 {
		return
	}
	if diff := cmp.Diff(list, got); diff != "" {
		j.t.Errorf("invalidations (-want +got):\n%s", diff)
	}
}

func saved(seq uint64, scope string) cache.Invalidation {
	return cache.Invalidation{Seq: seq, Scope: scope, At: time.Unix(1_700_000_000+int64(seq), 123).UTC(), Soft: seq%2 == 0}
}

func testSaved(t *testing.T, j *journal) {
	j.want()
	j.restart()
	j.want()
	list := []cache.Invalidation{
		saved(3, "prefix http://h/\x00\xff\n"), saved(4, ""), saved(5, "\x00"), {Seq: 6, Scope: "all "}, saved(1<<63, string(Content("scope", 1, 100_000))),
	}
	j.save(list[4], list[1], list[3], list[0], list[2]) // a number may come late
	for range 2 {
		j.want(list...)
		j.restart()
	}
	j.want(list...)
}

func testSavedKill(t *testing.T, j *journal) {
	put(t, j, Record("a", 1, 100), cache.PutStored)
	j.save(saved(2, "all "))
	Sync(t, j)
	j.kill()
	j.want(saved(2, "all "))
	wantToken(t, j, "a", 1)
	j.DropInvalidation(2)
	Sync(t, j)
	j.kill()
	j.want()
}

func testSavedTogether(t *testing.T, j *journal) {
	list := []cache.Invalidation{saved(2, "host a"), saved(7, "host b"), saved(7, "host a"), saved(7, "host b"), saved(9, "host a")}
	j.save(list[:3]...)
	j.restart()
	j.save(list[3:]...)
	for range 2 {
		j.want(list...)
		j.restart()
	}
	j.DropInvalidation(7)
	for range 2 {
		j.want(list[0], list[4])
		j.restart()
	}
}

func testDropped(t *testing.T, j *journal) {
	for i := range uint64(300) {
		j.save(saved(i, "host a"))
		if i%50 == 0 {
			Sync(t, j)
		}
	}
	for i := range uint64(300) {
		if i != 100 {
			j.DropInvalidation(i)
		}
		j.DropInvalidation(1000 + i) // nothing has it
	}
	for range 2 {
		j.want(saved(100, "host a"))
		j.restart()
	}
}

func testSavedAgain(t *testing.T, j *journal) {
	j.save(saved(1, "host a"))
	j.DropInvalidation(1)
	j.save(saved(1, "host b"))
	for range 2 {
		j.want(saved(1, "host b"))
		j.restart()
	}
}

func testSavedToken(t *testing.T, j *journal) {
	put(t, j, Record("a", 5, 100), cache.PutStored)
	j.save(saved(9, "all "))
	j.restart()
	if got := j.MaxToken(); got < 9 {
		t.Errorf("MaxToken %d after a restart, but 9 was saved", got)
	}
}

func testSavedClosed(t *testing.T, j *journal) {
	j.save(saved(1, "all "))
	j.stop()
	j.save(saved(2, "all "))
	j.DropInvalidation(1)
	j.start()
	j.want(saved(1, "all "))
}
