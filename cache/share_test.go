package cache_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestUnsharedFailureKeepsItsBody: who waited for a failure whose body is somebody's own gets the status, not the body.
func TestUnsharedFailureKeepsItsBody(t *testing.T) {
	for name, fields := range map[string][]string{
		"private":    {"Cache-Control: private"},
		"no-store":   {"Cache-Control: no-store"},
		"Set-Cookie": {"Set-Cookie: sid=1"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.origin.set(after(time.Second, func(int, *http.Request) *http.Response { return response(503, "secret", fields...) }))
				secrets, cookies := 0, 0
				for _, w := range r.burst(20, "/a") {
					if w.Code != 503 {
						t.Errorf("status %d", w.Code)
					}
					secrets += strings.Count(w.Body.String(), "secret")
					cookies += len(w.Header()["Set-Cookie"])
				}
				if secrets != 1 || cookies > 1 {
					t.Errorf("%d readers got the body, %d a cookie", secrets, cookies)
				}
				r.wantCalls(1)
			})
		})
	}
}

// TestNoCacheIsValidatedByEachReader: RFC 9111 §5.2.2.4. A response with no-cache is stored, but every reader has it validated.
func TestNoCacheIsValidatedByEachReader(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		conditional := 0
		r.origin.set(after(time.Second, func(_ int, req *http.Request) *http.Response {
			if req.Header.Get("If-None-Match") != "" {
				conditional++
				return response(304, "", `Etag: "a"`, "Cache-Control: no-cache")
			}
			return response(200, "body", `Etag: "a"`, "Cache-Control: no-cache")
		}))
		start := time.Now()
		for _, w := range r.burst(20, "/a") {
			wantBody(t, w, 200, "body")
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v: readers queued one behind the other", took)
		}
		r.wantCalls(20)
		wantBody(t, r.get("/a"), 200, "body")
		if r.wantCalls(21); conditional == 0 {
			t.Error("no validation was conditional")
		}
	})
}

// TestStrippedFieldsReachNobodyElse: RFC 9111 §5.2.2.4, §5.2.2.7 with field names.
func TestStrippedFieldsReachNobodyElse(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(time.Second, func(int, *http.Request) *http.Response {
			return response(200, "body", `Cache-Control: max-age=60, private="X-User"`, "X-User: me")
		}))
		seen := 0
		for _, w := range r.burst(20, "/a") {
			wantBody(t, w, 200, "body")
			seen += len(w.Header()["X-User"])
		}
		if seen > 1 {
			t.Errorf("%d readers got the private field", seen)
		}
		if w := r.get("/a"); w.Header().Get("X-User") != "" {
			t.Error("the private field was stored")
		}
	})
}

// TestVaryChangedByNotModified: RFC 9111 §4.3.4, §4.1.
func TestVaryChangedByNotModified(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(_ int, req *http.Request) *http.Response {
			lang := req.Header.Get("Accept-Language")
			if req.Header.Get("If-None-Match") == `"en"` && lang == "en" {
				return response(304, "", `Etag: "en"`, "Vary: Accept-Language", "Cache-Control: max-age=60, stale-while-revalidate=60")
			}
			fields := []string{`Etag: "` + lang + `"`, "Cache-Control: max-age=1"}
			if lang == "de" {
				fields = append(fields, "Vary: Accept-Language")
			}
			return response(200, lang, fields...)
		}))
		wantBody(t, r.get("/a", "Accept-Language: en"), 200, "en")
		time.Sleep(2 * time.Second)
		wantBody(t, r.get("/a", "Accept-Language: en"), 200, "en")
		wantBody(t, r.get("/a", "Accept-Language: de"), 200, "de")
		wantBody(t, r.get("/a", "Accept-Language: en"), 200, "en")
	})
}

// TestTransportTellsSchemesApart: the same path over http and https are two resources.
func TestTransportTellsSchemesApart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(_ int, req *http.Request) *http.Response {
			return response(200, req.URL.Scheme, "Cache-Control: max-age=60")
		}))
		client := &http.Client{Transport: r.c.Transport(r.origin)}
		for _, scheme := range []string{"http", "https", "http", "https"} {
			resp, err := client.Get(scheme + "://example.org/a")
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(resp.Body); string(b) != scheme {
				t.Errorf("%s got %q", scheme, b)
			}
			resp.Body.Close()
		}
		r.wantCalls(2)
	})
}

// TestEventStreamsAreNotShared: an endless response reaches its reader at once and nobody waits for its end.
func TestEventStreamsAreNotShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.origin.set(after(0, func(n int, _ *http.Request) *http.Response {
			resp := response(200, "data: 1\n\n", "Content-Type: text/event-stream; charset=utf-8", "Cache-Control: max-age=60")
			resp.ContentLength = -1
			return resp
		}))
		for i := range 3 {
			wantBody(t, r.get("/a"), 200, "data: 1\n\n")
			r.wantCalls(i + 1)
		}
	})
}
