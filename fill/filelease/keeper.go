package filelease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// Defaults of Options.
const (
	DefaultStale = 10 * time.Second
	// staleHeartbeats is how many check-ins fit into Stale: two may be late or fail.
	staleHeartbeats = 4
)

// Options are the settings of a Keeper. Only Dir is required.
type Options struct {
	// Dir is where the claims are, made if it is missing. All processes that share keys name the same one, on a local file system.
	Dir string
	// Tenure is how long a holder keeps its key without progress. 0 means 10 s, negative for ever.
	Tenure time.Duration
	// Stale is how long a claim is believed without a check-in. All processes use the same. 0 means 10 s.
	Stale time.Duration
	// Heartbeat is how often a holder checks in. 0 means a quarter of Stale; it must be below Stale.
	Heartbeat time.Duration
	// Poll is how often another process's claim is looked at again. 0 means 50 ms.
	Poll time.Duration
	// Sequence numbers the leases of this process. The keeper raises it above the tokens of other processes. Nil means one that
	// starts at the wall clock.
	Sequence *fill.Sequence
	// Report is told what fails or is lost in the background, from the keeper's goroutine. It must return soon. Nil means nobody is told.
	Report func(key fill.Key, err error)
}

// Keeper grants leases between processes. Its Table is what goroutines of this process use. Safe for concurrent use.
type Keeper struct {
	*fill.Table
	files *files
}

// files is the fill.Remote of a Keeper: it owns the claim files of this process.
type files struct {
	dir       string
	instance  string // this keeper among all that use the directory
	process   string
	stale     time.Duration
	heartbeat time.Duration
	sequence  *fill.Sequence
	report    func(fill.Key, error)
	guards    [guardCount]*guard // nil if Open failed before

	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex // guards following
	grips map[*grip]struct{}
}

// Open opens the directory, removes claims in it that are stale, and starts to keep leases. The caller closes the keeper.
func Open(o Options) (*Keeper, error) {
	f, err := o.files()
	if err != nil {
		return nil, err
	}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.closeGuards())
	}
	go f.beat()
	return &Keeper{
		Table: fill.New(fill.Options{Tenure: o.Tenure, Sequence: f.sequence, Remote: f, Poll: o.Poll}),
		files: f,
	}, nil
}

// files checks the options.
func (o Options) files() (*files, error) {
	if o.Dir == "" {
		return nil, errors.New("filelease: Options.Dir is empty")
	}
	if o.Stale == 0 {
		o.Stale = DefaultStale
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = o.Stale / staleHeartbeats
	}
	if o.Heartbeat <= 0 || o.Heartbeat >= o.Stale {
		return nil, fmt.Errorf("filelease: Heartbeat %v must be above 0 and below Stale %v", o.Heartbeat, o.Stale)
	}
	if o.Sequence == nil {
		o.Sequence = fill.NewSequence(uint64(time.Now().UnixNano()))
	}
	if o.Report == nil {
		o.Report = func(fill.Key, error) {}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	host, _ := os.Hostname()
	return &files{
		dir: o.Dir, instance: hex.EncodeToString(id[:]), process: fmt.Sprintf("%d@%s", os.Getpid(), host),
		stale: o.Stale, heartbeat: o.Heartbeat, sequence: o.Sequence, report: o.Report,
		stop: make(chan struct{}), done: make(chan struct{}), grips: make(map[*grip]struct{}),
	}, nil
}

// open opens the guards and clears the directory.
func (f *files) open() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("filelease: make directory: %w", err)
	}
	for i := range f.guards {
		path := filepath.Join(f.dir, fmt.Sprintf("guard.%02x", i))
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("filelease: open guard: %w", err)
		}
		f.guards[i] = newGuard(file)
	}
	return f.sweep()
}

// Close ends all leases of this process with fill.ErrClosed, gives their claims back and stops checking in. It takes a few file operations for each
// claim, and a second where a guard is held by a stopped process; it does not look at ctx. Claims that could not be given back go stale.
func (k *Keeper) Close(ctx context.Context) error {
	err := k.Table.Close(ctx)
	return errors.Join(err, k.files.close())
}

func (f *files) close() error {
	f.mu.Lock()
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	f.mu.Unlock()
	<-f.done
	return f.closeGuards()
}

func (f *files) closeGuards() error {
	var errs []error
	for _, g := range f.guards {
		if g != nil {
			errs = append(errs, g.close())
		}
	}
	return errors.Join(errs...)
}

// Acquire is fill.Acquire with an error that names the claim that was waited for.
func (k *Keeper) Acquire(ctx context.Context, key fill.Key, limit time.Duration) (*fill.Lease, error) {
	l, err := fill.Acquire(ctx, k, key, limit)
	if errors.Is(err, fill.ErrWaitOver) {
		return nil, fmt.Errorf("%w: %s", err, k.Describe(key))
	}
	return l, err
}

// Describe says in one line whose claim is on key: for messages to people.
func (k *Keeper) Describe(key fill.Key) string {
	path := k.files.path(key)
	now := time.Now().UnixNano()
	c, found, err := readClaim(path)
	switch {
	case err != nil:
		return fmt.Sprintf("claim %s: %v", path, err)
	case !found:
		return fmt.Sprintf("claim %s: none", path)
	}
	return fmt.Sprintf("claim %s of process %s, token %d, checked in %v ago", path, c.process, c.token,
		time.Duration(now-c.checkin).Round(time.Millisecond))
}

// name is a claim's file name without extension.
func name(key fill.Key) string {
	sum := sha256.Sum256([]byte(key.Space + "\x00" + key.ID))
	return hex.EncodeToString(sum[:16])
}

func (f *files) path(key fill.Key) string {
	return filepath.Join(f.dir, name(key)+claimExt)
}

const claimExt, tempExt = ".claim", ".tmp"
