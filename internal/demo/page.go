package demo

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Page is one resource of the demo origin.
type Page struct {
	// Path is where it is.
	Path string
	// Delay is how long the origin takes to make it.
	Delay time.Duration
	// CacheControl is what the origin says about it; "" for nothing.
	CacheControl string
	// About says what there is to see.
	About string

	kind    kind
	version atomic.Int64
}

// kind is what a page does beside being slow. A closed enum.
type kind uint8

const (
	kindPlain kind = iota
	// kindTagged has an ETag that stays for a minute, so that refreshes are answered 304.
	kindTagged
	// kindByLanguage varies with Accept-Language.
	kindByLanguage
	// kindDrip sends its body over several seconds.
	kindDrip
)

func pages() []*Page {
	const swr = "max-age=5, stale-while-revalidate=60, stale-if-error=600"
	return []*Page{
		{Path: "/news", Delay: time.Second, CacheControl: swr, About: "fresh for 5 s; then for a minute the old version at once while one refresh runs"},
		{Path: "/report", Delay: 3 * time.Second, CacheControl: "max-age=20, stale-while-revalidate=300", About: "very slow to make; only its first reader ever waits"},
		{Path: "/strict", Delay: time.Second, CacheControl: "max-age=5, must-revalidate", About: "never stale: its readers wait for the new version, and get an error when there is none"},
		{Path: "/tagged", Delay: time.Second, CacheControl: swr, About: "has an ETag: a refresh costs the origin a 304", kind: kindTagged},
		{Path: "/hello", Delay: 500 * time.Millisecond, CacheControl: "max-age=30", About: "varies with Accept-Language: one version per language", kind: kindByLanguage},
		{Path: "/drip", Delay: 200 * time.Millisecond, CacheControl: "max-age=30", About: "arrives over 5 s: who comes in the middle gets the beginning at once", kind: kindDrip},
		{Path: "/account", Delay: 300 * time.Millisecond, CacheControl: "private, no-store", About: "never shared: every reader gets a version of its own, none queues"},
		{Path: "/bare", Delay: 500 * time.Millisecond, About: "says nothing about caching, so it is not cached unless a rule has a ttl"},
	}
}

// serve makes the page anew and answers with it.
func (p *Page) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if p.CacheControl != "" {
		h.Set("Cache-Control", p.CacheControl)
	}
	switch p.kind {
	case kindTagged:
		p.serveTagged(w, r)
	case kindByLanguage:
		h.Set("Vary", "Accept-Language")
		fmt.Fprintf(w, "%s%s\n", p.head(), greeting(r.Header.Get("Accept-Language")))
	case kindDrip:
		p.drip(w, r)
	case kindPlain:
		fmt.Fprint(w, p.head())
	}
}

// head is the text by which one tells versions apart.
func (p *Page) head() string {
	return fmt.Sprintf("%s version %d, made at %s in %v\n", p.Path, p.version.Add(1), time.Now().Format("15:04:05.000"), p.Delay)
}

func (p *Page) serveTagged(w http.ResponseWriter, r *http.Request) {
	tag := `"` + time.Now().UTC().Format("1504") + `"`
	w.Header().Set("ETag", tag)
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	fmt.Fprint(w, p.head())
}

func greeting(languages string) string {
	switch {
	case strings.HasPrefix(languages, "de"):
		return "Guten Tag!"
	case strings.HasPrefix(languages, "fr"):
		return "Bonjour !"
	default:
		return "Hello!"
	}
}

const (
	dripLines = 10
	dripPause = 500 * time.Millisecond
)

func (p *Page) drip(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, p.head())
	flush := http.NewResponseController(w)
	for i := range dripLines {
		_ = flush.Flush() // a client that is gone ends the request's context
		if !pause(r.Context(), dripPause) {
			return
		}
		fmt.Fprintf(w, "line %d of %d\n", i+1, dripLines)
	}
}
