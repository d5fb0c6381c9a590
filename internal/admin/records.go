package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/policy"
)

// RecordAnswer says what the cache would do with a request now, and why. Instants are UTC.
type RecordAnswer struct {
	URL string `json:"url"`
	// Rule is the rule that matches, Key the key in readable form.
	Rule string `json:"rule"`
	Key  string `json:"key"`
	// Use is what a reader would get: fresh, stale-while-revalidate, must-wait or bypass.
	Use string `json:"use"`
	Why Why    `json:"why"`
	// Record is what is stored; nil if nothing is.
	Record *RecordDetail `json:"record,omitempty"`
	// NotStored is why the latest answer of the origin that was not stored was not, if one came after Record.
	NotStored *NotStored `json:"not_stored,omitempty"`
	// Fill is the fill that runs now in this process.
	Fill *FillDetail `json:"fill,omitempty"`
	// RetryAt is until when nobody tries again after a failure, nil where nothing stored could answer meanwhile: those readers do try.
	// DirectUntil is until when readers go to the origin each on their own.
	RetryAt     *time.Time `json:"retry_at,omitempty"`
	DirectUntil *time.Time `json:"direct_until,omitempty"`
}

// Why is a reason with the place that states its rule: an RFC and section, or "own".
type Why struct {
	Reason  string `json:"reason"`
	Section string `json:"section"`
}

// RecordDetail describes a stored response.
type RecordDetail struct {
	Status   int       `json:"status"`
	Bytes    int64     `json:"bytes"`
	StoredAt time.Time `json:"stored_at"`
	// AgeSeconds is its age: RFC 9111 §4.2.3.
	AgeSeconds float64 `json:"age_seconds"`
	// FreshUntil is the end of its freshness. StaleUntil and ErrorUntil are the ends of its windows, nil without one.
	FreshUntil time.Time  `json:"fresh_until"`
	StaleUntil *time.Time `json:"stale_until,omitempty"`
	ErrorUntil *time.Time `json:"error_until,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	// Number is that of the fill that made it; a higher one is younger.
	Number uint64 `json:"number"`
	// Variants is how many the key has, Vary what the newest depends on.
	Variants int         `json:"variants,omitempty"`
	Vary     []string    `json:"vary,omitempty"`
	Fields   http.Header `json:"fields"`
}

// NotStored says why an answer was not stored.
type NotStored struct {
	Why
	Status int       `json:"status"`
	At     time.Time `json:"at"`
}

// FillDetail describes a fill that runs.
type FillDetail struct {
	Number uint64    `json:"number"`
	Since  time.Time `json:"since"`
	// Background means that no reader waited when it began; Readers is how many read it now.
	Background bool `json:"background"`
	Readers    int  `json:"readers"`
}

func (a *api) records(w http.ResponseWriter, r *http.Request) {
	raw, h, bad := readQuery(r.URL.RawQuery)
	if bad != nil {
		writeBad(w, bad)
		return
	}
	a.explain(w, r, raw, h)
}

func (a *api) explain(w http.ResponseWriter, r *http.Request, raw string, h http.Header) {
	req, bad := requestFor(r.Context(), raw, h)
	if bad != nil {
		writeBad(w, bad)
		return
	}
	x, err := a.cache.Explain(req)
	if err != nil {
		refused(w, raw, err)
		return
	}
	WriteJSON(w, http.StatusOK, recordAnswer(raw, &x))
}

// readQuery takes url, and header as often as need be, each "Name: value".
func readQuery(query string) (raw string, h http.Header, bad *badInput) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, &badInput{field: "query", value: fmt.Sprintf("%q", clip(query)), why: "is malformed: " + err.Error(), mend: "percent-encode the values"}
	}
	for name := range values {
		if name != "url" && name != "header" {
			return "", nil, &badInput{field: clip(name), why: "is no parameter of this path", mend: "the parameters are url, header"}
		}
	}
	if n := len(values["url"]); n != 1 {
		return "", nil, &badInput{field: "url", why: fmt.Sprintf("is given %d times", n), mend: "give it once, percent-encoded: ?url=http%3A%2F%2Fexample.org%2Fpage"}
	}
	h = make(http.Header)
	for _, line := range values["header"] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return "", nil, &badInput{field: "header", value: fmt.Sprintf("%q", clip(line)), why: "has no colon", mend: "write it as Name: value"}
		}
		if bad := addField("header", name, strings.TrimSpace(value), h); bad != nil {
			return "", nil, bad
		}
	}
	return values.Get("url"), h, nil
}

func recordAnswer(raw string, x *cache.Explanation) RecordAnswer {
	ans := RecordAnswer{
		URL: raw, Rule: x.Rule, Key: x.Key, Use: x.Use.String(), Why: whyOf(x.Reason), Record: recordDetail(x),
		RetryAt: instant(x.RetryAt), DirectUntil: instant(x.MarkedUntil),
	}
	if x.NotStored != 0 {
		ans.NotStored = &NotStored{whyOf(x.NotStored), x.NotStoredStatus, x.NotStoredAt.UTC()}
	}
	if x.Filling {
		ans.Fill = &FillDetail{Number: x.FillToken, Since: x.FillingSince.UTC(), Background: x.FillBackground, Readers: x.FillReaders}
	}
	return ans
}

func recordDetail(x *cache.Explanation) *RecordDetail {
	if !x.Stored {
		return nil
	}
	d := &RecordDetail{
		Status: x.Status, Bytes: x.Size, StoredAt: x.StoredAt.UTC(), AgeSeconds: x.Age.Seconds(), FreshUntil: x.FreshUntil.UTC(),
		Tags: x.Tags, Number: x.Token, Variants: x.Variants, Vary: x.Vary, Fields: x.Fields,
	}
	if x.StaleUntil.After(x.FreshUntil) {
		d.StaleUntil = instant(x.StaleUntil)
	}
	if x.ErrorUntil.After(x.FreshUntil) {
		d.ErrorUntil = instant(x.ErrorUntil)
	}
	return d
}

func whyOf(r policy.Reason) Why { return Why{r.String(), r.Section()} }

// instant is t for an optional field, nil for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
