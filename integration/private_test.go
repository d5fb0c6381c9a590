package integration

import (
	"fmt"
	"net/http"
	"testing"
)

// Promise: what was made for one is never given to another.

// echo answers with the value of a request field.
func echo(name string, fields ...string) step {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, name+" "+r.Header.Get(name), fields...)(w, r, n)
	}
}

// SEC-04, RFC 9111 §3.5.
func TestAnswersToAuthorizationAreNotShared(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/account", echo("Authorization", "Cache-Control: max-age=60"))
	p := before(t, o)
	for range 2 {
		for _, user := range []string{"Bearer a", "Bearer b"} {
			p.get("/account", "Authorization: "+user).want(t, http.StatusOK, "Authorization "+user)
		}
	}
	o.wantCalls("/account", 4)
	p.get("/account").want(t, http.StatusOK, "Authorization ")
}

// RFC 9111 §3.5: public, s-maxage and must-revalidate allow it.
func TestAnswersToAuthorizationAreSharedWhereTheOriginSaysSo(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := before(t, o)
	for path, cc := range map[string]string{"/public": "public, max-age=60", "/s": "s-maxage=60", "/must": "must-revalidate, max-age=60"} {
		o.on(path, page("Cache-Control: "+cc))
		p.prime(path, "Authorization: Bearer a")
		r := p.get(path, "Authorization: Bearer b")
		r.want(t, http.StatusOK, version(1, path))
		o.wantCalls(path, 1)
	}
}

func TestTwoHostsAreTwoRecords(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/same", func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, r.Host, "Cache-Control: max-age=60")(w, r, n)
	})
	p := before(t, o)
	for range 2 {
		for _, host := range []string{"a.example.org", "b.example.org", "a.example.org:8080"} {
			p.get("/same", "Host: "+host).want(t, http.StatusOK, host)
		}
	}
	o.wantCalls("/same", 3)
	// KEY-04: case and default port do not make a third.
	r := p.get("/same", "Host: A.Example.ORG:80")
	r.want(t, http.StatusOK, "a.example.org")
	r.wantHit(t, true)
	// RFC 9112 §3.3: the absolute form wins over Host.
	p.get("http://b.example.org/same", "Host: a.example.org").want(t, http.StatusOK, "b.example.org")
	o.wantCalls("/same", 3)
}

func TestVariantsByLanguage(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/lang", echo("Accept-Language", "Cache-Control: max-age=60", "Vary: Accept-Language"))
	p := before(t, o)
	for range 3 {
		for _, lang := range []string{"de", "en", "fr"} {
			p.get("/lang", "Accept-Language: "+lang).want(t, http.StatusOK, "Accept-Language "+lang)
		}
	}
	o.wantCalls("/lang", 3)
}

// VAR-01, VAR-04, VAR-05, VAR-07: any field, all lines of it, all lines of Vary, and absence is a value of its own.
func TestVariantsByAllTheirFields(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.on("/v", page("Cache-Control: max-age=60", "Vary: Service", "Vary: X-Compat"))
	o.on("/star", page("Cache-Control: max-age=60", "Vary: *"))
	p := before(t, o)
	requests := [][]string{
		{"Service: a"}, {"Service: b"}, {"Service: a", "X-Compat: 2"}, {"Service: a", "Service: b"}, {}, {"X-Compat: 1"},
	}
	for range 2 {
		for i, fields := range requests {
			p.get("/v", fields...).want(t, http.StatusOK, version(i+1, "/v"))
		}
	}
	o.wantCalls("/v", len(requests))
	p.prime("/star")
	p.get("/star").want(t, http.StatusOK, version(2, "/star"))
}

// VAR-02: encodings are compared by what they mean.
func TestEncodingsAreNormalised(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/enc", page("Cache-Control: max-age=60", "Vary: Accept-Encoding"))
	p := before(t, o)
	p.prime("/enc", "Accept-Encoding: gzip, deflate, br")
	for _, same := range []string{"br, gzip, deflate", "GZIP,deflate,br", "gzip;q=1.0, deflate, br"} {
		p.get("/enc", "Accept-Encoding: "+same).want(t, http.StatusOK, version(1, "/enc"))
	}
	o.wantCalls("/enc", 1)
	p.get("/enc", "Accept-Encoding: gzip;q=0, deflate, br").want(t, http.StatusOK, version(2, "/enc"))
}

// SEC-01, SEC-02: a cookie is not stored and replayed, not even where a rule overrides what the origin says.
func TestCookiesAreNotReplayed(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{"default": "", "override": "  - { origin: app, ttl: 1m, override: true }"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t).on("/login", func(w http.ResponseWriter, r *http.Request, n int) {
				answer(http.StatusOK, version(n, "/login"), "Cache-Control: public, max-age=60", fmt.Sprintf("Set-Cookie: sid=%d", n))(w, r, n)
			})
			p := start(t, conf{Origin: o.url, Rules: rules})
			for i := 1; i <= 3; i++ {
				r := p.get("/login")
				r.want(t, http.StatusOK, version(i, "/login"))
				if got, want := r.Header.Get("Set-Cookie"), fmt.Sprintf("sid=%d", i); got != want {
					t.Errorf("Set-Cookie %q, want %q", got, want)
				}
			}
		})
	}
}

// SEC-06: no-store and private keep their force against a rule that overrides.
func TestNoRuleOverridesNoStore(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	p := start(t, conf{Origin: o.url, Rules: "  - { origin: app, ttl: 1h, override: true }"})
	for path, cc := range map[string]string{"/account/x.css": "no-store", "/account/y.css": "private", "/account/z.css": "private, max-age=60"} {
		o.on(path, page("Cache-Control: "+cc))
		p.prime(path, "Cookie: sid=1")
		p.get(path).want(t, http.StatusOK, version(2, path))
	}
}

// VAR-09: each stored response is chosen by its own Vary.
func TestVaryThatChangesFromAnswerToAnswer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/vv", func(w http.ResponseWriter, r *http.Request, n int) {
		vary := "Vary: X"
		if r.Header.Get("X") == "1" {
			vary = "Vary: X, Y"
		}
		answer(http.StatusOK, "X "+r.Header.Get("X"), "Cache-Control: max-age=60", vary)(w, r, n)
	})
	p := before(t, o)
	for range 3 {
		for _, x := range []string{"1", "2"} {
			p.get("/vv", "X: "+x, "Y: 1").want(t, http.StatusOK, "X "+x)
		}
	}
	o.wantCalls("/vv", 2)
}

// VAR-12: a 304 that adds a Vary keeps others from getting what was stored under the old one (RFC 9111 §4.3.4, §4.1).
func TestVaryAddedByA304(t *testing.T) {
	t.Parallel()
	inLanguage := func(w http.ResponseWriter, r *http.Request, n int) {
		answer(http.StatusOK, "in "+r.Header.Get("Accept-Language"), "Cache-Control: max-age=1")(w, r, n)
	}
	o := newOrigin(t).on("/late", validated(`"a"`, inLanguage, "Cache-Control: max-age=60", "Vary: Accept-Language"))
	p := before(t, o)
	p.get("/late", "Accept-Language: en").want(t, http.StatusOK, "in en")
	expire()
	p.get("/late", "Accept-Language: en").want(t, http.StatusOK, "in en")
	o.on("/late", echo("Accept-Language", "Cache-Control: max-age=60", "Vary: Accept-Language"))
	p.get("/late", "Accept-Language: de").want(t, http.StatusOK, "Accept-Language de")
	p.get("/late", "Accept-Language: en").want(t, http.StatusOK, "in en")
}
