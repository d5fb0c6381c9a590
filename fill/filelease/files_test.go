package filelease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

var key = fill.Key{Space: "app", ID: "https://example.org/\x00\"a\" ü\xff"}

// opened is a keeper in a directory of its own, closed at the end of the test.
func opened(t *testing.T, o Options) *Keeper {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	k := open(t, o)
	t.Cleanup(func() {
		if err := k.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return k
}

func acquire(t *testing.T, k *Keeper) *fill.Lease {
	t.Helper()
	l, err := k.TryAcquire(key)
	if err != nil {
		t.Fatalf("TryAcquire: %v", err)
	}
	return l
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// put writes a claim file of another process.
func put(t *testing.T, k *Keeper, text []byte) {
	t.Helper()
	if err := os.WriteFile(k.files.path(key), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func foreign(checkin time.Time) []byte {
	c := claim{checkin: checkin.UnixNano(), owner: "stranger.7", token: 7, process: "1@elsewhere", key: key}
	return c.encode()
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"no directory":              {},
		"heartbeat not below stale": {Dir: t.TempDir(), Stale: time.Second, Heartbeat: time.Second},
		"negative stale":            {Dir: t.TempDir(), Stale: -1},
		"directory is a file":       {Dir: "/dev/null"},
	} {
		if k, err := Open(o); err == nil {
			t.Errorf("%s: %v opened", name, k)
		}
	}
}

func TestClaimTextRoundTrip(t *testing.T) {
	want := claim{checkin: 1_700_000_000_000_000_000, owner: "a.1", token: 1 << 63, process: "12@host name", key: key}
	got, err := parseClaim(want.encode())
	if err != nil || got != want {
		t.Errorf("parsed %+v, %v, want %+v", got, err, want)
	}
}

func FuzzParseClaim(f *testing.F) {
	f.Add(foreign(time.Unix(1_700_000_000, 0)))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseClaim(text)
		if err != nil {
			return
		}
		if again, err := parseClaim(c.encode()); err != nil || again != c {
			t.Errorf("%q reads as %+v, and its own text as %+v, %v", text, c, again, err)
		}
	})
}

// How a claim of another process is judged by its text and times.
func TestJudging(t *testing.T) {
	const stale = time.Minute
	now := time.Now()
	whole := foreign(now)
	for name, c := range map[string]struct {
		text  []byte
		mtime time.Time
		busy  bool
	}{
		"checked in just now":                    {foreign(now), now, true},
		"checked in just now, old file":          {foreign(now), now.Add(-time.Hour), true},
		"not checked in for the limit":           {foreign(now.Add(-stale)), now, false},
		"checked in in the future":               {foreign(now.Add(time.Hour)), now, false},
		"aged on purpose":                        {foreign(time.Unix(0, 0)), now, false},
		"empty, written just now":                {nil, now, true},
		"empty, old":                             {nil, now.Add(-stale), false},
		"half written just now":                  {whole[:len(whole)/2], now, true},
		"half written, old":                      {whole[:len(whole)/2], now.Add(-stale), false},
		"half written, in the future":            {whole[:len(whole)/2], now.Add(time.Hour), false},
		"somebody else's file, written just now": {[]byte("hello\n"), now, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := opened(t, Options{Stale: stale})
			put(t, k, c.text)
			if err := os.Chtimes(k.files.path(key), c.mtime, c.mtime); err != nil {
				t.Fatal(err)
			}
			if got := k.files.Busy(key); got != c.busy {
				t.Errorf("Busy: %v, want %v", got, c.busy)
			}
			l, err := k.TryAcquire(key)
			if c.busy {
				wantErr(t, "TryAcquire", err, fill.ErrBusy)
				return
			}
			if err != nil {
				t.Fatalf("TryAcquire: %v", err)
			}
			if !l.Settle(fill.Outcome{Kind: fill.Stored}) {
				t.Error("Settle did not count")
			}
		})
	}
}

func TestOpenSweepsWhatCrashesLeft(t *testing.T) {
	dir := t.TempDir()
	k := opened(t, Options{Dir: dir})
	l := acquire(t, k)
	old := filepath.Join(dir, strings.Repeat("0", 32)+claimExt)
	temp := filepath.Join(dir, strings.Repeat("1", 32)+tempExt)
	other := filepath.Join(dir, "notes.txt")
	for _, path := range []string{old, temp, other} {
		if err := os.WriteFile(path, foreign(time.Unix(1, 0)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened(t, Options{Dir: dir})
	for path, want := range map[string]bool{old: false, temp: false, other: true, k.files.path(key): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want there: %v", filepath.Base(path), err, want)
		}
	}
	if err := l.CheckCommit(); err != nil {
		t.Errorf("CheckCommit: %v", err)
	}
}

// Whoever is robbed learns it at the next check-in, and says so together with whatever else failed.
func TestRobbedIsNoticedAtCheckIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported error
		k := open(t, Options{Dir: t.TempDir(), Tenure: -1, Report: func(_ fill.Key, err error) { reported = err }})
		l := acquire(t, k)
		_, w, err := k.Join(key)
		if err != nil {
			t.Fatal(err)
		}
		robbed := foreign(time.Now())
		put(t, k, robbed)
		began := time.Now()
		<-l.Context().Done()
		wantErr(t, "cause", context.Cause(l.Context()), fill.ErrLeaseLost)
		if took := time.Since(began); took > DefaultStale/staleHeartbeats {
			t.Errorf("noticed after %v", took)
		}
		synctest.Wait()
		wantErr(t, "reported", reported, fill.ErrLeaseLost)
		out, err := w.Wait(t.Context(), 0)
		if err != nil || !out.Kind.Lost() {
			t.Errorf("Wait: %v, %v, want a loss", out, err)
		}
		mine := errors.New("fetch failed too")
		err = l.Finish(fill.Outcome{Kind: fill.Failed, Err: mine})
		wantErr(t, "Finish", err, fill.ErrLeaseLost)
		wantErr(t, "Finish", err, mine)
		if text, _ := os.ReadFile(k.files.path(key)); string(text) != string(robbed) {
			t.Errorf("the robber's claim was touched: %q", text)
		}
		if err := k.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRobbedIsNoticedAtRelease(t *testing.T) {
	k := opened(t, Options{})
	l := acquire(t, k)
	robbed := foreign(time.Now())
	put(t, k, robbed)
	wantErr(t, "Finish", l.Finish(fill.Outcome{Kind: fill.Stored}), fill.ErrLeaseLost)
	wantErr(t, "cause", context.Cause(l.Context()), fill.ErrLeaseLost)
	if text, _ := os.ReadFile(k.files.path(key)); string(text) != string(robbed) {
		t.Errorf("the robber's claim was touched: %q", text)
	}
}

func TestHoldersCheckIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := open(t, Options{Dir: dir, Tenure: time.Hour}), open(t, Options{Dir: dir})
		l := acquire(t, a)
		time.Sleep(10 * DefaultStale)
		_, err := b.TryAcquire(key)
		wantErr(t, "TryAcquire beside a holder that checks in", err, fill.ErrBusy)
		if err := l.CheckCommit(); err != nil {
			t.Errorf("CheckCommit: %v", err)
		}
		for _, k := range []*Keeper{a, b} {
			if err := k.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Schedule: 1. the heartbeat lists the claim; 2. the owner releases it; 3. the heartbeat touches it. And the same with a lapse.
func TestTouchDuringReleaseBringsNothingBack(t *testing.T) {
	k := opened(t, Options{})
	l := acquire(t, k)
	g := k.files.kept()[0]
	if !l.Settle(fill.Outcome{Kind: fill.Stored}) {
		t.Fatal("Settle did not count")
	}
	g.touch()
	if _, err := os.Stat(k.files.path(key)); err == nil {
		t.Error("the claim is back")
	}

	l = acquire(t, k)
	g = k.files.kept()[0]
	if err := k.Age(l); err != nil {
		t.Fatal(err)
	}
	g.touch()
	if k.files.Busy(key) {
		t.Error("the aged claim is fresh again")
	}
	if c, _, _ := readClaim(k.files.path(key)); c.checkin != 0 {
		t.Errorf("the aged claim is checked in at %d", c.checkin)
	}
}

func TestReleaseErrorIsReportedBesideTheOwners(t *testing.T) {
	k := opened(t, Options{})
	l := acquire(t, k)
	path := k.files.path(key)
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	err := l.Finish(fill.Outcome{Kind: fill.Failed, Err: mine})
	if err == nil || errors.Is(err, fill.ErrLeaseLost) || !errors.Is(err, mine) {
		t.Errorf("Finish: %v, want the file system's error and the owner's", err)
	}
	if st := k.Stats(); st.Held != 0 || st.Settled != 1 {
		t.Errorf("%d held, %d settled; the settle counts all the same", st.Held, st.Settled)
	}
	if _, err := k.TryAcquire(key); err == nil || errors.Is(err, fill.ErrBusy) {
		t.Errorf("TryAcquire: %v, want the file system's error", err)
	}
}

// A child keeps its parent's claim fresh: it owns nothing.
func TestChildTouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k, other := open(t, Options{Dir: dir, Tenure: -1}), open(t, Options{Dir: dir, Tenure: -1})
		l := acquire(t, k)
		ref := k.Ref(l)
		k.files.drop(k.files.kept()[0]) // the parent sleeps
		for range 5 {
			time.Sleep(DefaultStale - 1)
			if err := ref.Touch(); err != nil {
				t.Fatalf("Touch: %v", err)
			}
			_, err := other.TryAcquire(key)
			wantErr(t, "TryAcquire", err, fill.ErrBusy)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(DefaultStale)
		next := acquire(t, other)
		wantErr(t, "Touch after the loss", ref.Touch(), fill.ErrLeaseLost)
		if err := next.CheckCommit(); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		wantErr(t, "Touch of no claim", Ref{Path: filepath.Join(dir, "x")}.Touch(), errNotClaim)
		for _, k := range []*Keeper{k, other} {
			if err := k.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAgedClaimIsTakenAtOnce(t *testing.T) {
	dir := t.TempDir()
	k, other := opened(t, Options{Dir: dir}), opened(t, Options{Dir: dir})
	l := acquire(t, k)
	if err := k.Age(l); err != nil {
		t.Fatal(err)
	}
	if err := l.CheckCommit(); err != nil {
		t.Errorf("CheckCommit before anybody came: %v", err)
	}
	acquire(t, other)
	wantErr(t, "CheckCommit", l.CheckCommit(), fill.ErrLeaseLost)
	wantErr(t, "Age", k.Age(l), fill.ErrLeaseLost)
}

func TestWaitThatTimesOutNamesTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k, other := open(t, Options{Dir: dir, Tenure: -1}), open(t, Options{Dir: dir})
		acquire(t, k)
		_, err := other.Acquire(t.Context(), key, time.Second)
		wantErr(t, "Acquire", err, fill.ErrWaitOver)
		for _, part := range []string{k.files.path(key), k.files.process, "1s"} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %q", err, part)
			}
		}
		if d := other.Describe(fill.Key{}); !strings.Contains(d, "none") {
			t.Errorf("Describe of no claim: %q", d)
		}
		for _, k := range []*Keeper{k, other} {
			if err := k.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A process that is stopped with a guard locked holds nobody up for ever.
func TestGuardThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k, stopped := open(t, Options{Dir: dir}), open(t, Options{Dir: dir})
		g := stopped.files.guards[guardIndex(name(key))]
		if err := g.lock(); err != nil {
			t.Fatal(err)
		}
		_, err := k.TryAcquire(key)
		wantErr(t, "TryAcquire", err, ErrGuard)
		wantErr(t, "TryAcquire", err, fill.ErrBusy)
		g.unlock()
		time.Sleep(time.Second)
		acquire(t, k)
		for _, k := range []*Keeper{k, stopped} {
			if err := k.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A busy claim elsewhere costs one look per poll, not one per read.
func TestBusyElsewhereIsRemembered(t *testing.T) {
	dir := t.TempDir()
	k, other := opened(t, Options{Dir: dir}), opened(t, Options{Dir: dir, Poll: time.Hour})
	acquire(t, k)
	_, err := other.TryAcquire(key)
	wantErr(t, "TryAcquire", err, fill.ErrBusy)
	if n := testing.AllocsPerRun(100, func() { _, _ = other.TryAcquire(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
