package disk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/cachetest"
)

const (
	// crashEnv names the store's path to the process that is to be killed.
	crashEnv = "SWRPROXY_CRASH_STORE"
	// roundsEnv is how often it is killed; 8 times without it.
	roundsEnv = "SWRPROXY_CRASH_ROUNDS"

	crashKeys   = 60
	crashPeriod = 50 // tokens from one invalidation to the next
	crashBudget = 96 << 20
)

// TestCrashChild is the process that TestCrash kills: it writes records of all sizes without a pause and says what is safe.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashEnv)
	if path == "" {
		t.Skip("run by TestCrash")
	}
	s, err := Open(Options{Path: path, Max: crashBudget, Linger: 5 * time.Millisecond, fault: suicide(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, inv := range s.Invalidations() {
		crashPurge(s, inv.Seq)
	}
	token := s.MaxToken()
	for ; ; token++ {
		if token%crashPeriod == 0 {
			s.SaveInvalidation(cache.Invalidation{Seq: token})
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			fmt.Println("safe", token)
			crashPurge(s, token)
		}
		crashPut(t, s, token+1)
	}
}

// crashPurge removes what an invalidation reaches, in place of a walk, and then the invalidation.
func crashPurge(s *Store, seq uint64) {
	for _, key := range crashReached(seq) {
		s.Delete(key, seq)
	}
	s.DropInvalidation(seq)
}

func crashReached(seq uint64) (keys []string) {
	for i := range uint64(20) {
		keys = append(keys, crashKey(seq+i))
	}
	return keys
}

// crashAtEnv names the step before which the child kills itself at some time, as a number; "" leaves it to the parent.
const crashAtEnv = "SWRPROXY_CRASH_AT"

// suicide kills this process before a step of the writer.
func suicide(t *testing.T) func(fault) error {
	v := os.Getenv(crashAtEnv)
	if v == "" {
		return nil
	}
	at, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", crashAtEnv, err)
	}
	return func(p fault) error {
		if p == fault(at) && rand.IntN(20) == 0 {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			return err
		}
		return nil
	}
}

// crashPut puts one record, one of three large ones by way of a spool.
func crashPut(t *testing.T, s *Store, token uint64) {
	r := cachetest.Record(crashKey(token), token, crashSize())
	for i := range token % 13 { // enough to have the index of terms settled all the time
		r.Tags = append(r.Tags, fmt.Sprint("tag/", (token*31+i*i)%199))
	}
	if r.Body.Size() > 1<<20 {
		sp := spooled(t, s, r)
		defer sp.Close()
	}
	if token%7 == 0 {
		s.Delete(crashKey(token+3), token)
	}
	s.Put(r)
}

func crashKey(token uint64) string { return fmt.Sprint("key/", token%crashKeys) }

// crashSize is from 0 bytes to 20 MiB, mostly small.
func crashSize() int {
	switch n := rand.IntN(300); {
	case n == 0:
		return rand.IntN(20 << 20)
	case n < 10:
		return rand.IntN(2 << 20)
	case n < 60:
		return rand.IntN(200 << 10)
	default:
		return rand.IntN(3000)
	}
}

// TestCrash kills a process in the middle of its writes, again and again: the store opens by itself each time, every body in it is
// whole, nothing is older than what was said to be safe, most keys are there, each is found by all its terms, and what an invalidation
// reached is gone or the invalidation is there.
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := 8
	if v := os.Getenv(roundsEnv); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", roundsEnv, err)
		}
	}
	dir := t.TempDir()
	records, bodies := 0, int64(0)
	for round := range rounds {
		at := "" // every other time at a certain step
		if round%2 == 1 {
			at = strconv.Itoa(round / 2 % (int(faultCommit) + 1))
		}
		safe := crash(t, dir, at)
		n, size := verifyCrashed(t, dir, safe)
		records, bodies = records+n, bodies+size
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("killed %d times; %d records with %d MiB were whole", rounds, records, bodies>>20)
	if records == 0 {
		t.Error("no record survived: the test shows nothing")
	}
}

// crash runs the child, kills it after a random time unless it does so itself before, and returns the last token that it said was safe.
func crash(t *testing.T, dir, at string) (safe uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), crashEnv+"="+dir, crashAtEnv+"="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(time.Duration(50+rand.IntN(500))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "safe "); ok {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil {
				safe = n
			}
		} else {
			t.Errorf("child: %s", lines.Text())
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("child ended by itself: %v", err)
	}
	return safe
}

// verifyCrashed opens the store that a killed process left, and reads everything.
func verifyCrashed(t *testing.T, dir string, safe uint64) (records int, bodies int64) {
	t.Helper()
	ev := newEvents()
	s, err := Open(Options{Path: dir, Max: crashBudget, Notify: ev.notify})
	if err != nil {
		t.Fatalf("open after a crash: %v", err)
	}
	if got := s.MaxToken(); got < safe {
		t.Errorf("MaxToken %d, but %d was safe", got, safe)
	}
	verifyPurged(t, s, safe)
	cachetest.CheckInvariants(t, s)
	for i := range uint64(crashKeys) {
		r, ok := s.Get(crashKey(i))
		if !ok {
			continue // deleted or evicted
		}
		if err := cachetest.Verify(r.Key, r); err != nil {
			t.Error(err)
		}
		records++
		bodies += r.Body.Size()
		if r.Token+crashKeys <= safe {
			t.Errorf("%q: token %d, but %d was safe", r.Key, r.Token, safe)
		}
	}
	if safe > crashKeys && records < crashKeys/2 {
		t.Errorf("%d of %d keys are there", records, crashKeys)
	}
	if st := s.Stats(); st.Damaged != 0 || st.Bytes > st.Max {
		t.Errorf("stats %+v", st)
	}
	shut(t, s)
	for _, kind := range ev.kinds() {
		if kind != EventOrphans {
			t.Errorf("event %v", kind)
		}
	}
	if rep := wantSound(t, dir); rep.Orphans != 0 {
		t.Logf("%d orphans not yet collected", rep.Orphans)
	}
	return records, bodies
}

// verifyPurged looks at the latest invalidation. Those before it were dropped, and that was safe.
func verifyPurged(t *testing.T, s *Store, safe uint64) {
	t.Helper()
	seq := s.MaxToken() / crashPeriod * crashPeriod
	pending := false
	for _, inv := range s.Invalidations() {
		if pending = inv.Seq == seq; inv.Seq < safe {
			t.Errorf("invalidation %d is there, but %d was safe", inv.Seq, safe)
		}
	}
	for _, key := range crashReached(seq) {
		if r, ok := s.Get(key); ok && r.Token <= seq && !pending {
			t.Errorf("%q, token %d: invalidation %d is gone before it", key, r.Token, seq)
		}
	}
}

// A body whose reader is slow stays whole while its record is replaced, evicted or deleted.
func TestSlowReader(t *testing.T) {
	s := open(t, Options{})
	put(t, s, cachetest.Record("a", 1, 1<<20))
	flushed(t, s)
	r, _ := s.Get("a")
	f, err := r.Body.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(f, head); err != nil {
		t.Fatal(err)
	}
	put(t, s, cachetest.Record("a", 2, 100))
	s.Delete("a", 2)
	flushed(t, s)
	rest, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	whole := *r
	whole.Body = cache.MemoryBody(append(head, rest...))
	if err := cachetest.Verify("a", &whole); err != nil {
		t.Error(err)
	}
}
