package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/bbolt"

	"github.com/swrproxy/swrproxy/cache"
)

// body opens a stored body. Immutable after it was made.
type body struct {
	s   *Store
	ref ref
}

// cacheBody is the body as a record carries it.
func (s *Store) cacheBody(r ref) cache.Body {
	if r.kind == bodyNone {
		return cache.MemoryBody(nil)
	}
	return cache.SourceBody(&body{s: s, ref: r}, r.size)
}

// Open returns a reader of the body: an *os.File if it is a file of its own. Length and checksum are right; a body file from before
// this process is read through for that when it is opened first. A body that is gone or damaged is an error, and its record is
// dropped.
func (b *body) Open() (io.ReadSeekCloser, error) {
	f, err := b.open()
	if err != nil {
		b.s.lost(b.ref, err)
		return nil, fmt.Errorf("open body %016x: %w", b.ref.id, err)
	}
	return f, nil
}

func (b *body) open() (io.ReadSeekCloser, error) {
	if b.ref.kind == bodyFile {
		f, err := b.s.openFile(b.ref)
		if err != nil {
			return nil, err // not f: a nil *os.File is not a nil interface
		}
		return f, nil
	}
	var p []byte
	err := b.s.view(func(tx *bbolt.Tx) (err error) {
		p, err = inline(tx, b.ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	return inlineReader{bytes.NewReader(p)}, nil
}

type inlineReader struct{ *bytes.Reader }

func (inlineReader) Close() error { return nil }

// bodyPath is the place of a body file, spoolPath where it is until then.
func (s *Store) bodyPath(id uint64) string {
	return s.path("bodies", fmt.Sprintf("%02x", byte(id)), fmt.Sprintf("%016x", id))
}

func (s *Store) spoolPath(id uint64) string { return s.path("spool", fmt.Sprintf("%016x", id)) }

// openFile opens a body file and checks it.
func (s *Store) openFile(r ref) (*os.File, error) {
	f, err := s.findFile(r.id)
	if err != nil {
		return nil, err
	}
	if err := s.verify(f, r); err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	return f, nil
}

// findFile looks in a body's place and where it was before; twice, since it may move in between.
func (s *Store) findFile(id uint64) (f *os.File, err error) {
	for _, path := range []string{s.bodyPath(id), s.spoolPath(id), s.bodyPath(id)} {
		if f, err = os.Open(path); !errors.Is(err, os.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

func (s *Store) verify(f *os.File, r ref) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != r.size {
		return fmt.Errorf("%w: body file of %d bytes, want %d", errDamaged, fi.Size(), r.size)
	}
	if s.verified.has(r.id) {
		return nil
	}
	d := xxhash.New()
	if _, err := io.Copy(d, f); err != nil {
		return err
	}
	if d.Sum64() != r.sum {
		return fmt.Errorf("%w: checksum of body file", errDamaged)
	}
	s.verified.add(r.id)
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// verified remembers which body files need no check any more: those that this process wrote, and those it has checked. Safe for
// concurrent use.
type verified struct {
	mu    sync.RWMutex // guards following
	first uint64       // ids from here on are this process's own
	ids   map[uint64]struct{}
}

func (v *verified) start(first uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ids == nil {
		v.first, v.ids = first, make(map[uint64]struct{})
	}
}

func (v *verified) has(id uint64) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, ok := v.ids[id]
	return ok || id >= v.first
}

func (v *verified) add(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ids[id] = struct{}{}
}

func (v *verified) remove(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.ids, id)
}

// lost deals with a body that could not be opened: if a record still says that it is there, it is damaged, and dropped.
func (s *Store) lost(r ref, why error) {
	if errors.Is(why, errClosed) || errors.Is(why, errBroken) {
		return
	}
	var owner, token uint64
	ok := false
	_ = s.view(func(tx *bbolt.Tx) error { // what can not be read is dealt with there
		if owner, ok = ownerOf(tx, r); !ok {
			return nil
		}
		v, err := find(tx, owner)
		if err != nil {
			ok = false
			return err
		}
		h, err := decodeHeader(v)
		ok = err == nil && h.body.id == r.id
		token = h.token
		return nil
	})
	if ok {
		s.discard(owner, token, why)
	}
}

// ownerOf returns the hash of the key whose record a body belongs to.
func ownerOf(tx *bbolt.Tx, r ref) (owner uint64, ok bool) {
	if r.kind == bodyInline {
		return chunkOwner(tx.Bucket(bucketBodies), r.id)
	}
	v := get64(tx.Bucket(bucketFiles), r.id)
	if len(v) < ownerSize {
		return 0, false
	}
	return be64(v), true
}

// discard drops a damaged record, unless a change of its key waits already.
func (s *Store) discard(h, token uint64, why error) {
	s.mu.Lock()
	_, queued := s.queue.latest[h]
	if !queued && !s.closed {
		s.counts.damaged.Add(1)
		s.gone.Add(h, token)
		s.pushLocked(&op{hash: h, token: token, cost: opOverhead})
	}
	s.mu.Unlock()
	if !queued {
		s.opt.Notify(Event{Kind: EventDamaged, Text: "damaged record in " + s.opt.Path + " dropped", Err: why})
	}
}

// errSource means that a body to be written could not be read.
var errSource = errors.New("disk: body can not be read")

// writeFile writes a body file beside its place, syncs it and moves it there.
func (s *Store) writeFile(id uint64, content cache.Body) (ref, error) {
	src, err := content.Open()
	if err != nil {
		return ref{}, fmt.Errorf("%w: %w", errSource, err)
	}
	defer src.Close()
	r := ref{kind: bodyFile, id: id, size: content.Size()}
	r.sum, err = s.writeAside(id, src, r.size)
	if err == nil {
		err = s.place(id)
	}
	if err != nil {
		_ = os.Remove(s.spoolPath(id)) // collected at the next start otherwise
		return ref{}, err
	}
	return r, nil
}

func (s *Store) writeAside(id uint64, src io.Reader, size int64) (sum uint64, err error) {
	if err := s.opt.fault(faultWrite); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(s.spoolPath(id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	d := xxhash.New()
	n, err := io.Copy(io.MultiWriter(f, d), src)
	if err == nil && n != size {
		err = fmt.Errorf("%w: %d bytes, want %d", errSource, n, size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return d.Sum64(), err
}

// place syncs a file that was written aside and moves it to its place. The directory is not synced: should a power cut undo the
// rename, the body is missing, which is found when it is opened.
func (s *Store) place(id uint64) error {
	if err := s.opt.fault(faultSync); err != nil {
		return err
	}
	f, err := os.OpenFile(s.spoolPath(id), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := s.opt.fault(faultRename); err != nil {
		return err
	}
	to := s.bodyPath(id)
	err = os.Rename(s.spoolPath(id), to)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		err = os.Rename(s.spoolPath(id), to)
	}
	return err
}
