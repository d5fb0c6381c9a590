package policy

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvaluate(t *testing.T) {
	const pass, notModified, failed = ConditionPass, ConditionNotModified, ConditionFailed
	etag, weak, lm := `ETag: "abc"`, `ETag: W/"abc"`, "Last-Modified: "+date(0)
	ims := func(d time.Duration) string { return "If-Modified-Since: " + date(d) }
	for name, tt := range map[string]struct {
		request, stored []string
		want            Condition
	}{
		"none": {nil, []string{etag, lm}, pass},

		"RFC 9110 §13.1.2 strong match":              {[]string{`If-None-Match: "abc"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 weak comparison":           {[]string{`If-None-Match: W/"abc"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 stored weak":               {[]string{`If-None-Match: "abc"`}, []string{weak}, notModified},
		"RFC 9110 §13.1.2 no match":                  {[]string{`If-None-Match: "abd"`}, []string{etag}, pass},
		"RFC 9110 §13.1.2 first of a list":           {[]string{`If-None-Match: "abc", "1", "2"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 middle of a list":          {[]string{`If-None-Match: "1","abc" , "2"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 last of a list":            {[]string{`If-None-Match: "1", W/"2", "abc"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 second line":               {[]string{`If-None-Match: "1"`, `If-None-Match: "abc"`}, []string{etag}, notModified},
		"RFC 9110 §13.1.2 star":                      {[]string{"If-None-Match: *"}, nil, notModified},
		"RFC 9110 §8.8.3 comma inside a tag":         {[]string{`If-None-Match: "a,b", "abc"`}, []string{etag}, notModified},
		"RFC 9110 §8.8.3 text of one tag in another": {[]string{`If-None-Match: "x,"abc""`}, []string{etag}, pass},
		"RFC 9110 §8.8.3 octets above ASCII":         {[]string{"If-None-Match: \"abc\xfc\""}, []string{"ETag: \"abc\xfc\""}, notModified},
		"unquoted against quoted":                    {[]string{"If-None-Match: abc"}, []string{etag}, pass},
		"unquoted against unquoted":                  {[]string{"If-None-Match: abc"}, []string{"ETag: abc"}, notModified},
		"lower-case w is no weak tag":                {[]string{`If-None-Match: w/"abc"`}, []string{etag}, pass},
		"no stored ETag":                             {[]string{`If-None-Match: "abc"`}, []string{lm}, pass},

		"RFC 9110 §13.1.3 equal":                        {[]string{ims(0)}, []string{lm}, notModified},
		"RFC 9110 §13.1.3 later":                        {[]string{ims(time.Hour)}, []string{lm}, notModified},
		"RFC 9110 §13.1.3 earlier":                      {[]string{ims(-time.Hour)}, []string{lm}, pass},
		"RFC 9110 §13.1.3 RFC 850 form":                 {[]string{"If-Modified-Since: Tuesday, 01-Jan-30 12:00:00 GMT"}, []string{lm}, notModified},
		"RFC 9110 §13.1.3 no date":                      {[]string{"If-Modified-Since: yesterday"}, []string{lm}, pass},
		"RFC 9110 §13.1.3 If-None-Match wins, mismatch": {[]string{`If-None-Match: "x"`, ims(0)}, []string{etag, lm}, pass},
		"RFC 9110 §13.1.3 If-None-Match wins, match":    {[]string{`If-None-Match: "abc"`, ims(-time.Hour)}, []string{etag, lm}, notModified},
		"RFC 9111 §4.3.2 no Last-Modified: Date":        {[]string{ims(0)}, []string{"Date: " + date(0)}, notModified},
		"RFC 9111 §4.3.2 no Last-Modified: later Date":  {[]string{ims(-time.Hour)}, []string{"Date: " + date(0)}, pass},
		"RFC 9111 §4.3.2 no date at all: reception":     {[]string{ims(0)}, nil, notModified},
		"RFC 9111 §4.3.2 received later":                {[]string{ims(-time.Second)}, nil, pass},

		"RFC 9110 §13.1.1 match":                        {[]string{`If-Match: "x", "abc"`}, []string{etag}, pass},
		"RFC 9110 §13.1.1 no match":                     {[]string{`If-Match: "x"`}, []string{etag}, failed},
		"RFC 9110 §13.1.1 strong comparison":            {[]string{`If-Match: W/"abc"`}, []string{weak}, failed},
		"RFC 9110 §13.1.1 star":                         {[]string{"If-Match: *"}, nil, pass},
		"RFC 9110 §13.1.4 modified":                     {[]string{"If-Unmodified-Since: " + date(-sec)}, []string{lm}, failed},
		"RFC 9110 §13.1.4 unmodified":                   {[]string{"If-Unmodified-Since: " + date(0)}, []string{lm}, pass},
		"RFC 9110 §13.1.4 no date":                      {[]string{"If-Unmodified-Since: x"}, []string{lm}, pass},
		"RFC 9110 §13.1.4 not beside If-Match":          {[]string{`If-Match: "abc"`, "If-Unmodified-Since: " + date(-sec)}, []string{etag, lm}, pass},
		"RFC 9110 §13.2.2 If-Match, then If-None-Match": {[]string{`If-Match: "abc"`, `If-None-Match: "abc"`}, []string{etag}, notModified},
		"RFC 9110 §13.2.2 failed before not modified":   {[]string{`If-Match: "x"`, `If-None-Match: "abc"`}, []string{etag}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			req, stored := fields(tt.request...), fields(tt.stored...)
			for _, method := range []string{"GET", "HEAD"} {
				if got := Evaluate(req, method, 200, stored, t0); got != tt.want {
					t.Errorf("%s: %v, want %v", method, got, tt.want)
				}
			}
			for _, status := range []int{301, 404, 500} {
				if got := Evaluate(req, "GET", status, stored, t0); got != pass {
					t.Errorf("RFC 9110 §13.2.1: %v for %d", got, status)
				}
			}
		})
	}
	if got := Evaluate(fields(`If-None-Match: "abc"`), "PUT", 200, fields(etag), t0); got != failed {
		t.Errorf("RFC 9110 §13.1.2: %v for PUT", got)
	}
}

func TestUndatedNotModified(t *testing.T) {
	s := &Settings{UndatedNotModified: true}
	old := fields("If-Modified-Since: " + date(-time.Hour))
	for name, tt := range map[string]struct {
		req    http.Header
		stored []string
		want   Condition
	}{
		"neither date nor ETag": {old, []string{"Date: " + date(0)}, ConditionNotModified},
		"ETag":                  {old, []string{`ETag: "a"`, "Date: " + date(0)}, ConditionPass},
		"date":                  {old, []string{"Last-Modified: " + date(0)}, ConditionPass},
		"no condition":          {nil, []string{"Date: " + date(0)}, ConditionPass},
	} {
		if got := s.Evaluate(tt.req, "GET", 200, fields(tt.stored...), t0); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// RFC 9110 §15.4.5
func TestNotModifiedHeader(t *testing.T) {
	always := []string{"Cache-Control: max-age=1", "Content-Location: /x", "Date: " + date(0), "Expires: " + date(0), "Vary: a", "X-Other: 1"}
	content := []string{"Content-Type: application/json", "Content-Length: 500", "Content-Encoding: br", "Content-Language: de", "Accept-Ranges: bytes"}
	for name, tt := range map[string]struct{ stored, want []string }{
		"strong ETag":   {[]string{`ETag: "a"`, "Last-Modified: " + date(0)}, []string{`ETag: "a"`}},
		"weak ETag":     {[]string{`ETag: W/"a"`, "Last-Modified: " + date(0)}, []string{`ETag: W/"a"`, "Last-Modified: " + date(0)}},
		"Last-Modified": {[]string{"Last-Modified: " + date(0)}, []string{"Last-Modified: " + date(0)}},
	} {
		stored := fields(append(append(tt.stored, always...), content...)...)
		if diff := cmp.Diff(fields(append(tt.want, always...)...), NotModifiedHeader(stored)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(stored) != len(tt.stored)+len(always)+len(content) {
			t.Errorf("%s: the stored header was changed", name)
		}
	}
}
