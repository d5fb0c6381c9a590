package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAdmit(t *testing.T) {
	hour := &Settings{TTL: time.Hour, Override: true}
	partial := &Settings{StorePartial: true}
	post := &Settings{StorePOST: true}
	for name, tt := range map[string]struct {
		s        *Settings
		method   string
		request  []string
		status   int
		response []string
		want     Reason // 0: stored
		shared   bool
	}{
		"RFC 9111 §3 explicit freshness":                        {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5"}, 0, true},
		"RFC 9111 §3 HEAD creates no entry":                     {nil, "HEAD", nil, 200, []string{"Cache-Control: max-age=5"}, ReasonMethod, false},
		"RFC 9111 §3 POST":                                      {nil, "POST", nil, 200, []string{"Cache-Control: max-age=5"}, ReasonMethod, false},
		"RFC 9110 §9.3.3 POST with explicit freshness, allowed": {post, "POST", nil, 200, []string{"Expires: " + date(60*sec)}, 0, true},
		"RFC 9110 §9.3.3 POST without explicit freshness":       {post, "POST", nil, 200, []string{"Last-Modified: " + date(-1000*sec)}, ReasonMethod, false},
		"RFC 9110 §9.3.3 POST that created something":           {post, "POST", nil, 201, []string{"Cache-Control: max-age=5"}, ReasonMethod, false},
		"RFC 9111 §3.3 206 by default":                          {nil, "GET", nil, 206, []string{"Cache-Control: max-age=5"}, ReasonPartial, false},
		"RFC 9111 §3.3 206 allowed":                             {partial, "GET", nil, 206, []string{"Cache-Control: max-age=5"}, 0, true},
		"RFC 9111 §3 304 is merged, not stored":                 {nil, "GET", nil, 304, []string{"Cache-Control: max-age=5"}, ReasonStatus, false},
		"RFC 9111 §3 interim responses":                         {nil, "GET", nil, 103, []string{"Cache-Control: max-age=5"}, ReasonStatus, false},
		"RFC 9111 §3 unknown status, explicit freshness":        {nil, "GET", nil, 599, []string{"Cache-Control: max-age=5"}, 0, true},
		"RFC 9111 §3 origin's 502 with explicit freshness":      {nil, "GET", nil, 502, []string{"Cache-Control: max-age=5"}, 0, true},
		"RFC 9111 §3 error without freshness":                   {nil, "GET", nil, 502, nil, ReasonNoFreshness, false},
		"RFC 9110 §15 a status that is none":                    {nil, "GET", nil, 600, []string{"Cache-Control: max-age=5"}, ReasonStatus, false},
		"a status that the rule does not store":                 {&Settings{StatusTTL: map[int]time.Duration{404: -1}}, "GET", nil, 404, []string{"Cache-Control: max-age=5"}, ReasonStatus, false},
		"RFC 9111 §5.2.2.3 must-understand, unknown status":     {nil, "GET", nil, 599, []string{"Cache-Control: max-age=5, must-understand"}, ReasonStatus, false},
		"RFC 9111 §5.2.2.3 must-understand, no-store, unknown":  {nil, "GET", nil, 599, []string{"Cache-Control: max-age=5, no-store, must-understand"}, ReasonStatus, false},
		"RFC 9111 §5.2.2.3 must-understand, no-store, known":    {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5, no-store, must-understand"}, 0, true},
		"RFC 9111 §5.2.2.3 must-understand and private":         {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5, private, must-understand"}, ReasonPrivate, false},
		"RFC 9111 §5.2.1.5 request no-store":                    {nil, "GET", []string{"Cache-Control: no-store"}, 200, []string{"Cache-Control: max-age=5"}, ReasonRequestNoStore, false},
		"RFC 9111 §5.2.2.5 no-store":                            {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5, no-store"}, ReasonNoStore, false},
		"no-store stands an override":                           {hour, "GET", nil, 200, []string{"Cache-Control: no-store"}, ReasonNoStore, false},
		"RFC 9111 §5.2.2.7 private":                             {nil, "GET", nil, 200, []string{"Cache-Control: private, max-age=5"}, ReasonPrivate, false},
		"private stands an override":                            {hour, "GET", nil, 200, []string{"Cache-Control: private"}, ReasonPrivate, false},
		"private before public":                                 {nil, "GET", nil, 200, []string{"Cache-Control: public, private, max-age=5"}, ReasonPrivate, false},
		"RFC 9111 §5.2.2.7 private fields only":                 {nil, "GET", nil, 200, []string{`Cache-Control: private="x", max-age=5`}, 0, true},
		"RFC 9111 §3.5 Authorization":                           {nil, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: max-age=5"}, ReasonAuthorization, false},
		"RFC 9111 §3.5 Authorization and Expires":               {nil, "GET", []string{"Authorization: a"}, 200, []string{"Expires: " + date(60*sec)}, ReasonAuthorization, false},
		"RFC 9111 §3.5 Authorization, public":                   {nil, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: max-age=5, public"}, 0, true},
		"RFC 9111 §3.5 Authorization, s-maxage":                 {nil, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: s-maxage=5"}, 0, true},
		"RFC 9111 §3.5 Authorization, must-revalidate":          {nil, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: max-age=5, must-revalidate"}, 0, true},
		"RFC 9111 §3.5 Authorization, proxy-revalidate":         {nil, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: max-age=5, proxy-revalidate"}, ReasonAuthorization, false},
		"Authorization stands an override":                      {hour, "GET", []string{"Authorization: a"}, 200, nil, ReasonAuthorization, false},
		"Authorization, allowed by the rule":                    {&Settings{Authorized: true}, "GET", []string{"Authorization: a"}, 200, []string{"Cache-Control: max-age=5"}, 0, true},
		"deviation: Set-Cookie is refused":                      {nil, "GET", nil, 200, []string{"Cache-Control: public, max-age=5", "Set-Cookie: a=b"}, ReasonSetCookie, false},
		"Set-Cookie stands an override":                         {hour, "GET", nil, 200, []string{"Set-Cookie: a=b"}, ReasonSetCookie, false},
		"Set-Cookie that no-cache takes out":                    {nil, "GET", nil, 200, []string{`Cache-Control: max-age=5, no-cache="set-cookie"`, "Set-Cookie: a=b"}, 0, true},
		"Set-Cookie stripped":                                   {&Settings{SetCookie: StripSetCookie}, "GET", []string{"Cookie: a=b"}, 200, []string{"Cache-Control: max-age=5", "Set-Cookie: a=b"}, 0, true},
		"Set-Cookie kept":                                       {&Settings{SetCookie: KeepSetCookie}, "GET", nil, 200, []string{"Cache-Control: max-age=5", "Set-Cookie: a=b"}, 0, true},
		"Set-Cookie, forced lifetime, strip, request with cookie": {
			&Settings{SetCookie: StripSetCookie, TTL: sec, Override: true}, "GET",
			[]string{"Cookie: a=b"},
			200,
			[]string{"Set-Cookie: a=b"},
			ReasonSetCookie, false,
		},
		"Set-Cookie, forced lifetime, strip, request without": {
			&Settings{SetCookie: StripSetCookie, TTL: sec, Override: true}, "GET",
			nil, 200,
			[]string{"Set-Cookie: a=b"},
			0, true,
		},
		"RFC 9111 §4.1 Vary: *":             {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5", "Vary: a, *"}, ReasonVaryStar, false},
		"a request with a cookie is as any": {nil, "GET", []string{"Cookie: a=b"}, 200, []string{"Cache-Control: max-age=5"}, 0, true},

		"no freshness, no validator":                   {nil, "GET", nil, 200, nil, ReasonNoFreshness, false},
		"no freshness, validator":                      {nil, "GET", nil, 200, []string{"ETag: \"a\""}, 0, false},
		"RFC 9111 §4 max-age=0 serves those who wait":  {nil, "GET", nil, 200, []string{"Cache-Control: max-age=0"}, ReasonNoFreshness, true},
		"RFC 9111 §4 max-age=0 with validator":         {nil, "GET", nil, 200, []string{"Cache-Control: public, max-age=0", "ETag: \"a\""}, 0, true},
		"RFC 9111 §5.2.2.4 no-cache without validator": {nil, "GET", nil, 200, []string{"Cache-Control: no-cache, max-age=5"}, ReasonNoFreshness, false},
		"RFC 9111 §5.2.2.4 no-cache with validator":    {nil, "GET", nil, 200, []string{"Cache-Control: no-cache, max-age=5", "ETag: \"a\""}, 0, false},
		"stale on arrival, no validator":               {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5", "Age: 6"}, ReasonNoFreshness, true},
		"stale on arrival, but inside a window":        {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5, stale-if-error=9", "Age: 6"}, 0, true},
		"past Expires is not for those who wait":       {nil, "GET", nil, 200, []string{"Expires: 0"}, ReasonNoFreshness, false},

		"RFC 9213 §2.2 targeted freshness against no-store": {nil, "GET", nil, 200, []string{"Cache-Control: no-store", "CDN-Cache-Control: max-age=5"}, 0, true},
		"RFC 9213 §2.2 targeted no-store against freshness": {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5", "CDN-Cache-Control: no-store"}, ReasonNoStore, false},
		"RFC 9213 §2.2 targeted private":                    {nil, "GET", nil, 200, []string{"Cache-Control: max-age=5", "CDN-Cache-Control: private", "Expires: " + date(60*sec)}, ReasonPrivate, false},
		"RFC 9213 §2.1 malformed: Cache-Control holds":      {nil, "GET", nil, 200, []string{"Cache-Control: no-store", "CDN-Cache-Control: max-age=10000, @@"}, ReasonNoStore, false},
		"RFC 9213 §2.1 wrong type: Cache-Control holds":     {nil, "GET", nil, 200, []string{"Cache-Control: no-store", `CDN-Cache-Control: max-age="10000"`}, ReasonNoStore, false},
	} {
		t.Run(name, func(t *testing.T) {
			req := reads(tt.request...)
			req.Method = tt.method
			adm := Admit(tt.s, req, tt.status, fields(tt.response...), t0, t0)
			if adm.Store != (tt.want == 0) || adm.Reason != tt.want || adm.Shareable != tt.shared {
				t.Errorf("store %v (%v), shareable %v; want %v, %v", adm.Store, adm.Reason, adm.Shareable, tt.want, tt.shared)
			}
		})
	}
}

func TestAdmitStrips(t *testing.T) {
	for name, tt := range map[string]struct {
		s        *Settings
		response []string
		want     []string
	}{
		"nothing":                               {nil, []string{"Cache-Control: max-age=5"}, nil},
		"RFC 9111 §5.2.2.4 fields of no-cache":  {nil, []string{`Cache-Control: max-age=5, no-cache="b, a", private="a"`}, []string{"A", "B"}},
		"RFC 9111 §3.1 proxy authentication":    {nil, []string{"Cache-Control: max-age=5", "Proxy-Authentication-Info: x"}, []string{"Proxy-Authentication-Info"}},
		"cookies":                               {&Settings{SetCookie: StripSetCookie}, []string{"Cache-Control: max-age=5"}, []string{"Set-Cookie", "Set-Cookie2"}},
		"RFC 9213 §2.2 only the targeted field": {nil, []string{`Cache-Control: no-cache="a"`, `CDN-Cache-Control: max-age=5, private="b"`}, []string{"B"}},
	} {
		t.Run(name, func(t *testing.T) {
			adm := Admit(tt.s, reads(), 200, fields(tt.response...), t0, t0)
			if diff := cmp.Diff(tt.want, adm.Strip); diff != "" {
				t.Errorf("strip (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsError(t *testing.T) {
	want := map[int]bool{500: true, 502: true, 503: true, 504: true}
	for status := 100; status < 600; status++ {
		if IsError(status) != want[status] {
			t.Errorf("RFC 5861 §4: %d is an error = %v", status, IsError(status))
		}
	}
}
