package cache_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swrproxy/swrproxy/cache"
)

// TestSlowerThanTheTenure: an origin that takes longer than the tenure is cached all the same, and its stale record is refreshed.
func TestSlowerThanTheTenure(t *testing.T) {
	slow := func(c *cache.Config) { c.Fill.Tenure = time.Second }
	bubble(t, slow, func(t *testing.T, r *rig) {
		r.origin.set(after(1500*time.Millisecond, numbered("Cache-Control: max-age=1, stale-while-revalidate=600")))
		start := time.Now()
		var late atomic.Int64
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				r.get("/a")
				if time.Since(start) > 1500*time.Millisecond {
					late.Add(1)
				}
			})
		}
		wg.Wait()
		if n := late.Load(); n > 1 {
			t.Errorf("%d readers waited beyond the first answer, want at most the second holder", n)
		}
		if n := r.origin.count(); n > 2 {
			t.Errorf("%d fetches", n)
		}
		time.Sleep(5 * time.Second)
		old := r.get("/a").Body.String()
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			r.get("/a")
		}
		if now := r.get("/a").Body.String(); now == old {
			t.Errorf("still %q two seconds after its refresh began", now)
		}
	})
}

// TestBrokenRefreshKeepsTheRecord: RFC 5861 §4. A refresh whose body breaks off replaces nothing, whatever its fields say.
func TestBrokenRefreshKeepsTheRecord(t *testing.T) {
	for _, control := range []string{"max-age=60", "", "private", "no-store", "max-age=0"} {
		for _, window := range []string{"stale-while-revalidate=60", "stale-if-error=60"} {
			t.Run(window+" "+control, func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, r *rig) {
					r.origin.set(after(0, numbered("Cache-Control: max-age=1, "+window)))
					r.get("/a")
					time.Sleep(2 * time.Second)
					r.origin.set(func(int, *http.Request) (*http.Response, error) {
						resp := response(200, "whole", "Cache-Control: "+control)
						resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("who"), errReader{io.ErrUnexpectedEOF}))
						return resp, nil
					})
					r.get("/a")
					time.Sleep(10 * time.Millisecond)
					r.origin.set(func(int, *http.Request) (*http.Response, error) { return nil, errors.New("down") })
					wantBody(t, r.get("/a"), 200, "v1")
				})
			})
		}
	}
}

// TestStatusThatIsNone: an answer without a valid status is a failure of the origin.
func TestStatusThatIsNone(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, status := range []int{0, 99, 1000} {
			r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(status, "x") }))
			var wg sync.WaitGroup
			wg.Go(func() {
				if w := r.get("/a"); w.Code != 502 {
					t.Errorf("status %d: %d", status, w.Code)
				}
			})
			wg.Wait()
		}
	})
}

// lostBody is a body whose file is gone.
type lostBody struct{}

func (lostBody) Open() (io.ReadSeekCloser, error) { return nil, errors.New("gone") }

// TestLostBodyIsAMiss: a stored body that can not be read is dropped before anything is sent.
func TestLostBodyIsAMiss(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, numbered("Cache-Control: max-age=1, stale-while-revalidate=60, stale-if-error=60")))
		lose := func() {
			synctest.Wait() // a fill that is ending can still be joined
			r.store.Walk(func(rec *cache.Record) bool {
				bad := *rec
				bad.Body = cache.SourceBody(lostBody{}, rec.Body.Size())
				return r.store.Put(&bad) == cache.PutStored
			})
		}
		r.get("/a")
		lose()
		wantBody(t, r.get("/a"), 200, "v2")
		time.Sleep(2 * time.Second)
		lose()
		wantBody(t, r.get("/a"), 200, "v3")
		lose()
		r.origin.set(func(int, *http.Request) (*http.Response, error) { return nil, errors.New("down") })
		if w := r.get("/a"); w.Code != 502 {
			t.Errorf("nothing to serve: %d", w.Code)
		}
	})
}

// storedBody opens as a reader.
type storedBody struct{ io.ReadSeeker }

func (b storedBody) Open() (io.ReadSeekCloser, error) { return b, nil }

func (storedBody) Close() error { return nil }

// failingSeeker breaks off.
type failingSeeker struct{ *strings.Reader }

func (failingSeeker) Read([]byte) (int, error) { return 0, errors.New("unreadable") }

// TestWhoBrokeOff: an answer that ends early is told of as the client's going or the store's failing.
func TestWhoBrokeOff(t *testing.T) {
	const text = "abcdef"
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body func() io.ReadSeeker
		gone bool // the client
	}{
		"client, from memory": {func() io.ReadSeeker { return strings.NewReader(text) }, true},
		"client, from a file": {func() io.ReadSeeker { f, _ := os.Open(file); return f }, true},
		"body fails":          {func() io.ReadSeeker { return failingSeeker{strings.NewReader(text)} }, false},
		"body is short":       {func() io.ReadSeeker { return strings.NewReader("ab") }, false},
		"file fails":          {func() io.ReadSeeker { f, _ := os.OpenFile(file, os.O_WRONLY, 0); return f }, false},
	} {
		for _, field := range []string{"Range: bytes=1-4", "Range: bytes=0-1,3-4", "X: whole"} {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(200, text, "Cache-Control: max-age=60") }))
				r.get("/a")
				synctest.Wait()
				r.store.Walk(func(rec *cache.Record) bool {
					other := *rec
					body := c.body()
					if f, ok := body.(*os.File); ok {
						t.Cleanup(func() { f.Close() })
					}
					other.Body = cache.SourceBody(storedBody{body}, int64(len(text)))
					return r.store.Put(&other) == cache.PutStored
				})
				var w http.ResponseWriter = httptest.NewRecorder()
				if c.gone {
					w = goneWriter{promptWriter{ResponseRecorder: httptest.NewRecorder()}}
				}
				if r.serve(t.Context(), w, "/a", field) {
					t.Errorf("%s, %s: the answer is whole", name, field)
				}
				if e := r.notes.reads[len(r.notes.reads)-1]; e.ClientGone != c.gone {
					t.Errorf("%s, %s: the client is told of as gone: %t, %v", name, field, e.ClientGone, e.Err)
				}
			})
		}
	}
}

// TestNotModifiedThatNobodyAskedFor: RFC 9110 §15.4.5. It confirms nothing, so it is a failure of the origin.
func TestNotModifiedThatNobodyAskedFor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(int, *http.Request) *http.Response { return response(304, "", `Etag: "a"`) }))
		if w := r.get("/a"); w.Code != 502 {
			t.Errorf("status %d", w.Code)
		}
	})
}

// TestReadersOfALongTransfer: whoever comes, at whatever moment around the arrival of the head, gets the first bytes at once and the whole
// body from the one fetch.
func TestReadersOfALongTransfer(t *testing.T) {
	bubble(t, func(c *cache.Config) { c.Fill.Wait = 2 * time.Second }, func(t *testing.T, r *rig) {
		r.origin.set(after(100*time.Millisecond, func(int, *http.Request) *http.Response {
			resp := response(200, "", "Cache-Control: max-age=600")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("begin "), sleepReader(10*time.Second), strings.NewReader("end")))
			return resp
		}))
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				wantBody(t, r.get("/a"), 200, "begin end")
			})
		}
		wg.Wait()
		r.wantCalls(1)
	})
}

// sleepReader takes its time and reads nothing.
type sleepReader time.Duration

func (s sleepReader) Read([]byte) (int, error) {
	time.Sleep(time.Duration(s))
	return 0, io.EOF
}
