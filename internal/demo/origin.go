package demo

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

// controlPath is below what the switches are.
const controlPath = "/_origin/"

// failDelay is how long a failing origin takes to say so.
const failDelay = 150 * time.Millisecond

// Origin is the slow origin. It is an [http.Handler]. Safe for concurrent use.
type Origin struct {
	pages    []*Page
	switches *switches
	// address is the origin's own, for the index page.
	address string
}

// NewOrigin makes an origin. Address is its base URL, which its index page shows.
func NewOrigin(address string) *Origin {
	return &Origin{pages: pages(), switches: newSwitches(), address: address}
}

// Pages lists what there is to fetch. The caller must not modify it.
func (o *Origin) Pages() []*Page { return o.pages }

// ServeHTTP answers with a page, or with what the present mode makes of it.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, controlPath) {
		o.switches.serve(w, r)
		return
	}
	if !o.switches.hang(r.Context()) {
		return
	}
	if mode, _, _ := o.switches.get(); mode == ModeFailing {
		o.fail(w, r)
		return
	}
	o.serve(w, r)
}

func (o *Origin) fail(w http.ResponseWriter, r *http.Request) {
	if pause(r.Context(), failDelay) {
		http.Error(w, "the demo origin fails, as it was told to", http.StatusServiceUnavailable)
	}
}

func (o *Origin) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" {
		o.serveIndex(w)
		return
	}
	for _, p := range o.pages {
		if p.Path == r.URL.Path {
			// Being slow also means to be slow at failing: a switch thrown meanwhile counts.
			if pause(r.Context(), p.Delay) && o.switches.hang(r.Context()) {
				p.serve(w, r)
			}
			return
		}
	}
	http.NotFound(w, r)
}

//go:embed index.html
var indexHTML string

var indexTemplate = template.Must(template.New("index").Parse(indexHTML))

func (o *Origin) serveIndex(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=600, stale-if-error=86400")
	_ = indexTemplate.Execute(w, struct { // a client that is gone is no error of ours
		Pages  []*Page
		Origin string
	}{o.pages, o.address})
}
