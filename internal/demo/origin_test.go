package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends one request to the origin and returns the answer and the time that it took.
func ask(o *Origin, method, target string, fields ...string) (*http.Response, string, time.Duration) {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	begin := time.Now()
	o.ServeHTTP(w, r)
	took := time.Since(begin)
	resp := w.Result()
	body, _ := io.ReadAll(resp.Body) // a recorder's body does not fail
	return resp, string(body), took
}

func TestPagesAreSlowAndTellTheirVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		for _, p := range o.Pages() {
			resp, body, took := ask(o, "GET", p.Path)
			want := p.Delay
			if p.kind == kindDrip {
				want += dripLines * dripPause
			}
			if resp.StatusCode != http.StatusOK || took != want || !strings.Contains(body, p.Path+" version 1, made at ") {
				t.Errorf("%s: %d after %v, want %v: %q", p.Path, resp.StatusCode, took, want, body)
			}
			if got := resp.Header.Get("Cache-Control"); got != p.CacheControl {
				t.Errorf("%s: Cache-Control %q", p.Path, got)
			}
			if _, body, _ := ask(o, "GET", p.Path); !strings.Contains(body, "version 2,") {
				t.Errorf("%s again: %q", p.Path, body)
			}
		}
	})
}

func TestTaggedPageAnswers304(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		resp, _, _ := ask(o, "GET", "/tagged")
		tag := resp.Header.Get("ETag")
		if resp, body, _ := ask(o, "GET", "/tagged", "If-None-Match", tag); resp.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%d %q", resp.StatusCode, body)
		}
		time.Sleep(time.Minute)
		if resp, _, _ := ask(o, "GET", "/tagged", "If-None-Match", tag); resp.StatusCode != http.StatusOK {
			t.Errorf("a minute later: %d", resp.StatusCode)
		}
	})
}

func TestHelloVariesByLanguage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		for language, want := range map[string]string{"de-AT": "Guten Tag!", "fr": "Bonjour !", "": "Hello!"} {
			resp, body, _ := ask(o, "GET", "/hello", "Accept-Language", language)
			if !strings.Contains(body, want) || resp.Header.Get("Vary") != "Accept-Language" {
				t.Errorf("%q: %q", language, body)
			}
		}
	})
}

func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		if _, body, _ := ask(o, "POST", "/_origin/fail?for=10s"); !strings.Contains(body, "failing until") {
			t.Errorf("switch: %q", body)
		}
		if resp, _, took := ask(o, "GET", "/news"); resp.StatusCode != http.StatusServiceUnavailable || took != failDelay {
			t.Errorf("failing: %d after %v", resp.StatusCode, took)
		}
		time.Sleep(10 * time.Second)
		if resp, _, _ := ask(o, "GET", "/news"); resp.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %d", resp.StatusCode)
		}
	})
}

func TestFailingUntilRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		ask(o, "GET", "/_origin/fail")
		time.Sleep(time.Hour)
		if resp, _, _ := ask(o, "GET", "/news"); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("after an hour: %d", resp.StatusCode)
		}
		ask(o, "GET", "/_origin/recover")
		if _, body, _ := ask(o, "GET", "/_origin/state"); body != "the origin is healthy\n" {
			t.Errorf("state %q", body)
		}
	})
}

func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		ask(o, "POST", "/_origin/hang?for=5s")
		if resp, _, took := ask(o, "GET", "/news"); resp.StatusCode != http.StatusOK || took != 6*time.Second {
			t.Errorf("hang for 5 s: %d after %v", resp.StatusCode, took)
		}
		ask(o, "POST", "/_origin/hang")
		go func() {
			time.Sleep(time.Minute)
			ask(o, "POST", "/_origin/recover")
		}()
		if resp, _, took := ask(o, "GET", "/news"); resp.StatusCode != http.StatusOK || took != time.Minute+time.Second {
			t.Errorf("hang until recovered: %d after %v", resp.StatusCode, took)
		}
	})
}

// A switch thrown while a page is being made counts for that page.
func TestHangingOvertakesAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		go func() {
			time.Sleep(500 * time.Millisecond)
			ask(o, "POST", "/_origin/hang?for=10s")
		}()
		if _, _, took := ask(o, "GET", "/news"); took != 10500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestHangingEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin("http://origin")
		ask(o, "POST", "/_origin/hang")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/news", nil))
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestBadRequests(t *testing.T) {
	o := NewOrigin("http://origin")
	for target, want := range map[string]int{
		"/nowhere": 404, "/_origin/explode": 404, "/_origin/fail?for=soon": 400, "/_origin/hang?for=-1s": 400,
	} {
		if resp, _, _ := ask(o, "GET", target); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", target, resp.StatusCode, want)
		}
	}
	if mode, _, _ := o.switches.get(); mode != ModeHealthy {
		t.Errorf("mode %v", mode)
	}
}

func TestIndexListsEverything(t *testing.T) {
	o := NewOrigin("http://127.0.0.1:9999")
	resp, body, _ := ask(o, "GET", "/")
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, `const origin = "http://127.0.0.1:9999"`) {
		t.Errorf("index: %v\n%s", resp.Header, body)
	}
	for _, p := range o.Pages() {
		if !strings.Contains(body, `href="`+p.Path+`"`) {
			t.Errorf("index lacks %s", p.Path)
		}
	}
}
