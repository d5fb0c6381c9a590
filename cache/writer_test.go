package cache

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// TestOnlyTheWriterChangesTheStore: of this package's code the writer alone has a Store, and only in its own files are Put and Delete of one called. So no
// change goes past the commit lock, the tokens and the log.
func TestOnlyTheWriterChangesTheStore(t *testing.T) {
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	holders, calls := map[string]int{}, 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		writers := strings.HasPrefix(name, "writer")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && hasField(s, "Store") {
					holders[n.Name.Name]++
				}
			case *ast.SelectorExpr:
				on, ok := n.X.(*ast.SelectorExpr)
				if !ok || on.Sel.Name != "store" || n.Sel.Name != "Put" && n.Sel.Name != "Delete" {
					return true
				}
				calls++
				if !writers {
					t.Errorf("%s: %s of the store", set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
	if calls == 0 || len(holders) != 2 || holders["Config"] != 1 || holders["writer"] != 1 {
		t.Errorf("%d calls; these types hold a Store: %v, want Config and writer", calls, holders)
	}
}

func hasField(s *ast.StructType, typ string) bool {
	for _, f := range s.Fields.List {
		if id, ok := f.Type.(*ast.Ident); ok && id.Name == typ {
			return true
		}
	}
	return false
}

func TestTicketsAreOrdered(t *testing.T) {
	var s tickets
	list := make([]ticket, 5)
	for i, token := range []uint64{5, 3, 9, 4, 7} {
		s.add(&list[i], token)
	}
	if s.lowest() != 3 {
		t.Fatalf("lowest %d", s.lowest())
	}
	for _, c := range []struct {
		close  int
		oldest bool
		lowest uint64
	}{{2, false, 3}, {1, true, 4}, {1, false, 4}, {0, false, 4}, {3, true, 7}, {4, true, math.MaxUint64}} {
		if got := s.remove(&list[c.close]); got != c.oldest || s.lowest() != c.lowest {
			t.Errorf("close %d: oldest %t, lowest %d, want %t, %d", list[c.close].token, got, s.lowest(), c.oldest, c.lowest)
		}
	}
	if s.newest != nil || s.oldest != nil {
		t.Error("something is left in the list")
	}
}

// TestLogIsBounded: a ticket that stays open for ever keeps no more of the log than its bound, and stores nothing once entries were given up for it.
func TestLogIsBounded(t *testing.T) {
	var w writer
	w.init(nil, 0, nil)
	var slow, young ticket
	w.open(&slow, 1)
	entry := func(n uint64, kind scopeKind) {
		t.Helper()
		if err := w.makeRoom(t.Context(), &walks{}); err != nil {
			t.Fatal(err)
		}
		s := scope{kind, string(rune(n))}
		if got := w.log.add(s, n, false, time.Time{}); got != s {
			t.Fatalf("entry %d became %v", n, got)
		}
		w.applied([]scope{s})
	}
	for n := uint64(2); n < 2+maxPatterns; n++ {
		entry(n, scopePrefix)
	}
	if n := len(w.log.patterns); n != maxPatterns || slow.void.Load() {
		t.Errorf("%d patterns, void %t: want all %d kept for the ticket that is older", n, slow.void.Load(), maxPatterns)
	}
	entry(2+maxPatterns, scopePrefix)
	if n := len(w.log.patterns); n > maxPatterns {
		t.Errorf("%d patterns, want at most %d", n, maxPatterns)
	}
	if !slow.void.Load() {
		t.Error("the oldest ticket may still commit, though entries are gone")
	}
	if result := w.commit(&slow, &change{rec: &Record{}}); result != PutOlder {
		t.Errorf("commit by a void ticket: %v", result)
	}
	w.open(&young, 1<<40)
	for n := uint64(1000); n < 1000+2*maxEntries; n++ {
		entry(n, scopeURL)
	}
	if n := w.log.size(); n != 0 || young.void.Load() {
		t.Errorf("%d entries, void %t: none is older than the youngest ticket", n, young.void.Load())
	}
}

// TestLogThatIsFullReachesEverything: what a walk has to apply can not be given up. An entry for which there is no room reaches more than it was meant to, never
// less; who can wait does.
func TestLogThatIsFullReachesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writer
		w.init(nil, 0, nil)
		q := walks{running: true}
		for n := range uint64(maxPatterns) {
			w.log.add(scope{scopePrefix, string(rune(n + 1))}, n+1, false, time.Time{})
		}
		waited := make(chan error)
		go func() { waited <- w.makeRoom(t.Context(), &q) }()
		synctest.Wait()
		s := w.log.add(scope{scopeURL, "u"}, 999, false, time.Time{})
		if s.kind != scopeAll || !w.taken(&Record{Primary: "x\x00http://h/", Token: 998}) || w.taken(&Record{Primary: "x\x00http://h/", Token: 999}) {
			t.Errorf("the entry beyond the bound reaches %v", s)
		}
		w.applied([]scope{s, {scopePrefix, "\x01"}})
		q.take() // a walk has ended
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// TestSoftEntriesKeepTheEarliestInstant: RFC 9111 has no word for it; a deadline that has moved earlier does not move back when the same scope is
// made stale again.
func TestSoftEntriesKeepTheEarliestInstant(t *testing.T) {
	var l invalidations
	born := time.Now().UTC().Round(0)
	rec := &Record{Primary: "x\x00http://h/", Token: 5, Life: policy.Life{BornAt: born, FreshFor: time.Hour}}
	for n := range uint64(3 * maxSofts) {
		l.add(scope{scopePrefix, "http://h"}, 10+n, true, born.Add(time.Duration(n)*time.Minute))
		life, ok := l.apply(rec)
		if !ok || life.TTL(born) > 0 {
			t.Fatalf("after %d soft purges: fresh for %v more", n+1, life.TTL(born))
		}
	}
	between := *rec
	between.Token = 10 + 3*maxSofts - 2 // only the last one is newer
	between.Life.BornAt = born.Add((3*maxSofts - 2) * time.Minute)
	if life, _ := l.apply(&between); life.TTL(born.Add((3*maxSofts-2)*time.Minute)) != time.Minute {
		t.Errorf("fresh for %v more, want a minute", life.TTL(born.Add((3*maxSofts-2)*time.Minute)))
	}
}

// TestGate: what is inside may let more in, shut or not; others not any more.
func TestGate(t *testing.T) {
	var g gate
	if !g.enter() {
		t.Fatal("an open gate refuses")
	}
	empty := g.shut()
	if g.enter() {
		t.Error("a shut gate lets in")
	}
	g.more()
	g.leave()
	select {
	case <-empty:
		t.Error("empty with one inside")
	default:
	}
	g.leave()
	<-empty
}
