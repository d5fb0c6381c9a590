package policy

import (
	"testing"
	"time"
)

// life admits a 200 for a plain GET and returns its life.
func lifeOf(t *testing.T, s *Settings, status int, lines ...string) Life {
	t.Helper()
	return Admit(s, reads(), status, fields(lines...), t0, t0).Life
}

func TestFreshnessLifetime(t *testing.T) {
	const lm = "Last-Modified: "
	for name, tt := range map[string]struct {
		s      *Settings
		status int
		fields []string
		want   time.Duration
		flags  LifeFlags
	}{
		"RFC 9111 §4.2.1 max-age":                           {nil, 200, []string{"Cache-Control: max-age=5"}, 5 * sec, Explicit},
		"RFC 9111 §4.2.1 s-maxage before a longer max-age":  {nil, 200, []string{"Cache-Control: max-age=9, s-maxage=1"}, 1 * sec, Explicit | MustRevalidate},
		"RFC 9111 §4.2.1 s-maxage before a shorter max-age": {nil, 200, []string{"Cache-Control: max-age=0, s-maxage=15"}, 15 * sec, Explicit | MustRevalidate},
		"s-maxage before max-age and a past Expires": {
			nil, 200,
			[]string{"Cache-Control: max-age=0, s-maxage=15", "Expires: " + date(-10*sec)},
			15 * sec, Explicit | MustRevalidate,
		},
		"RFC 9111 §5.3 max-age before Expires":             {nil, 200, []string{"Cache-Control: max-age=5", "Expires: " + date(-60*sec)}, 5 * sec, Explicit},
		"max-age before an unreadable Expires":             {nil, 200, []string{"Cache-Control: max-age=5", "Expires: 0"}, 5 * sec, Explicit},
		"max-age=0 before a future Expires":                {nil, 200, []string{"Cache-Control: max-age=0", "Expires: " + date(60*sec)}, 0, Explicit},
		"RFC 9111 §5.3 Expires less Date":                  {nil, 200, []string{"Expires: " + date(60*sec), "Date: " + date(10*sec)}, 50 * sec, Explicit},
		"Expires without Date":                             {nil, 200, []string{"Expires: " + date(60*sec)}, 60 * sec, Explicit},
		"Expires with an unreadable Date":                  {nil, 200, []string{"Expires: " + date(10*sec), "Date: foo"}, 10 * sec, Explicit},
		"Expires before Date":                              {nil, 200, []string{"Expires: " + date(300*sec), "Date: " + date(400*sec)}, 0, Explicit},
		"Expires equal to Date":                            {nil, 200, []string{"Expires: " + date(0), "Date: " + date(0)}, 0, Explicit},
		"RFC 9111 §5.3 Expires: 0":                         {nil, 200, []string{"Expires: 0", lm + date(-1000*sec)}, 0, Explicit},
		"Expires in another time zone":                     {nil, 200, []string{"Expires: Tue, 01 Jan 2030 12:01:00 CET"}, 0, Explicit},
		"Expires in RFC 850 form":                          {nil, 200, []string{"Expires: Tuesday, 01-Jan-30 12:01:00 GMT"}, 60 * sec, Explicit},
		"Expires in asctime form":                          {nil, 200, []string{"Expires: Tue Jan  1 12:01:00 2030"}, 60 * sec, Explicit},
		"two Expires: the earlier":                         {nil, 200, []string{"Expires: " + date(60*sec), "Expires: " + date(30*sec)}, 30 * sec, Explicit},
		"two Expires, one unreadable":                      {nil, 200, []string{"Expires: " + date(60*sec), "Expires: x"}, 0, Explicit},
		"Expires far ahead":                                {nil, 200, []string{"Expires: Fri, 01 Jan 9999 00:00:00 GMT"}, Forever, Explicit},
		"RFC 9111 §4.2.2 a tenth since Last-Modified":      {nil, 200, []string{lm + date(-1000*sec)}, 100 * sec, Heuristic},
		"§4.2.2 counted from Date":                         {nil, 200, []string{lm + date(-1000*sec), "Date: " + date(-500*sec)}, 50 * sec, Heuristic},
		"§4.2.2 bounded by a day":                          {nil, 200, []string{lm + date(-10000*time.Hour)}, 24 * time.Hour, Heuristic},
		"§4.2.2 modified in the future":                    {nil, 200, []string{lm + date(60*sec)}, 0, 0},
		"§4.2.2 unreadable Last-Modified":                  {nil, 200, []string{lm + "yesterday"}, 0, 0},
		"§4.2.2 another fraction and bound":                {&Settings{Heuristic: .5, HeuristicMax: time.Minute}, 200, []string{lm + date(-100*sec)}, 50 * sec, Heuristic},
		"§4.2.2 switched off":                              {&Settings{Heuristic: -1}, 200, []string{lm + date(-1000*sec)}, 0, 0},
		"§4.2.2 not beside explicit freshness":             {nil, 200, []string{lm + date(-1000*sec), "Cache-Control: max-age=0"}, 0, Explicit},
		"§4.2.2 not beside garbage":                        {nil, 200, []string{lm + date(-1000*sec), "Cache-Control: @@"}, 0, 0},
		"§4.2.2 also for answers to queries":               {nil, 200, []string{lm + date(-1000*sec), "Content-Disposition: attachment"}, 100 * sec, Heuristic},
		"§4.2.2 Pragma in a response means nothing":        {nil, 200, []string{lm + date(-1000*sec), "Pragma: no-cache"}, 100 * sec, Heuristic},
		"§5.2.2.9 public allows heuristics for any status": {nil, 599, []string{lm + date(-1000*sec), "Cache-Control: public"}, 100 * sec, Heuristic},
		"RFC 8246 §2 immutable is kept":                    {nil, 200, []string{"Cache-Control: max-age=5, immutable"}, 5 * sec, Explicit | Immutable},

		"TTL when the origin states nothing":               {&Settings{TTL: time.Hour}, 200, nil, time.Hour, 0},
		"TTL before heuristics":                            {&Settings{TTL: time.Hour}, 200, []string{lm + date(-1000*sec)}, time.Hour, 0},
		"TTL not before what the origin states":            {&Settings{TTL: time.Hour}, 200, []string{"Cache-Control: max-age=5"}, 5 * sec, Explicit},
		"TTL not before garbage":                           {&Settings{TTL: time.Hour}, 200, []string{"Cache-Control: max-age=5s"}, 0, Explicit},
		"TTL not for errors":                               {&Settings{TTL: time.Hour}, 500, nil, 0, 0},
		"TTL for 404":                                      {&Settings{TTL: time.Hour}, 404, nil, time.Hour, 0},
		"TTL of a status":                                  {&Settings{TTL: time.Hour, StatusTTL: map[int]time.Duration{404: sec}}, 404, nil, sec, 0},
		"TTL of an error":                                  {&Settings{StatusTTL: map[int]time.Duration{503: sec}}, 503, nil, sec, 0},
		"TTL 0 of a status: stale at once":                 {&Settings{TTL: time.Hour, StatusTTL: map[int]time.Duration{200: 0}}, 200, []string{lm + date(-1000*sec)}, 0, 0},
		"override":                                         {&Settings{TTL: time.Hour, Override: true}, 200, []string{"Cache-Control: max-age=0, s-maxage=1", "Expires: 0"}, time.Hour, 0},
		"override takes over no-cache and must-revalidate": {&Settings{TTL: time.Hour, Override: true}, 200, []string{"Cache-Control: no-cache, must-revalidate"}, time.Hour, 0},
		"override without TTL leaves the origin's":         {&Settings{Override: true, StaleIfError: sec}, 200, []string{"Cache-Control: max-age=5, must-revalidate"}, 5 * sec, Explicit | MustRevalidate},
		"TTL not beside garbage":                           {&Settings{TTL: time.Hour}, 200, []string{"Cache-Control: public; max-age 30"}, 0, Explicit},
		"TTL not beside other garbage":                     {&Settings{TTL: time.Hour}, 200, []string{"Cache-Control: @@"}, 0, 0},
		"TTL beyond all measure":                           {&Settings{TTL: 1<<63 - 1}, 200, nil, Forever, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := lifeOf(t, tt.s, tt.status, tt.fields...)
			if l.FreshFor != tt.want || l.Flags != tt.flags {
				t.Errorf("FreshFor %v, flags %06b; want %v, %06b", l.FreshFor, l.Flags, tt.want, tt.flags)
			}
		})
	}
}

// RFC 9110 §15.1, RFC 9111 §4.2.2: heuristics and a general TTL are for these statuses only.
func TestHeuristicStatuses(t *testing.T) {
	want := map[int]bool{200: true, 203: true, 204: true, 206: true, 300: true, 301: true, 308: true, 404: true, 405: true, 410: true, 414: true, 501: true}
	for status := 200; status < 600; status++ {
		if status == 304 || status == 416 {
			continue
		}
		adm := Admit(&Settings{StorePartial: true}, reads(), status, fields("Last-Modified: "+date(-1000*sec)), t0, t0)
		if fresh := Judge(adm.Life, reads(), t0).Use == Fresh; fresh != want[status] {
			t.Errorf("%d: heuristically fresh = %v, want %v", status, fresh, want[status])
		}
	}
}

func TestAge(t *testing.T) {
	for name, tt := range map[string]struct {
		delay  time.Duration // between request and response
		fields []string
		want   time.Duration
	}{
		"RFC 9111 §4.2.3 nothing":                        {0, nil, 0},
		"RFC 9111 §4.2.3 response delay":                 {5 * sec, nil, 5 * sec},
		"RFC 9111 §4.2.3 Age":                            {0, []string{"Age: 50"}, 50 * sec},
		"RFC 9111 §4.2.3 Age and response delay":         {2 * sec, []string{"Age: 50"}, 52 * sec},
		"RFC 9111 §4.2.3 apparent age":                   {0, []string{"Date: " + date(-60*sec)}, 60 * sec},
		"RFC 9111 §4.2.3 the larger of both":             {2 * sec, []string{"Date: " + date(-60*sec), "Age: 50"}, 60 * sec},
		"RFC 9111 §4.2.3 Date ahead of us":               {0, []string{"Date: " + date(3600*sec)}, 0},
		"RFC 9110 §6.6.1 unreadable Date: reception":     {0, []string{"Date: Sat, 01 Oct 2022 7:19:16 GMT"}, 0},
		"two Dates are no date":                          {0, []string{"Date: " + date(-60*sec), "Date: " + date(-50*sec)}, 0},
		"RFC 9111 §5.1 letters are ignored":              {0, []string{"Age: abc"}, 0},
		"RFC 9111 §5.1 negative is ignored":              {0, []string{"Age: -7200"}, 0},
		"RFC 9111 §5.1 fraction is ignored":              {0, []string{"Age: 7200.0"}, 0},
		"RFC 9651 §3.3 parameter of an age is ignored":   {0, []string{"Age: 7200;foo=bar"}, 2 * time.Hour},
		"RFC 9111 §5.1 empty is ignored":                 {0, []string{"Age:"}, 0},
		"RFC 9111 §5.1 first of a list":                  {0, []string{"Age: 7200, 0"}, 7200 * sec},
		"RFC 9111 §5.1 first of a list, no space":        {0, []string{"Age: 0,7200"}, 0},
		"RFC 9111 §5.1 first of two lines":               {0, []string{"Age: 7200", "Age: 0"}, 7200 * sec},
		"RFC 9111 §5.1 first of two lines, smaller":      {0, []string{"Age: 0", "Age: 7200"}, 0},
		"RFC 9111 §5.1 unreadable first: all is ignored": {0, []string{"Age: x, 7200"}, 0},
		"RFC 9111 §1.2.2 31 bits":                        {0, []string{"Age: 2147483647"}, 2147483647 * sec},
		"RFC 9111 §1.2.2 more than 31 bits":              {0, []string{"Age: 2147483649"}, Forever},
		"RFC 9111 §1.2.2 2^33":                           {9 * sec, []string{"Age: 8589934592"}, Forever},
		"our clock went back":                            {-5 * sec, []string{"Age: 3"}, 3 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			adm := Admit(nil, reads(), 200, fields(append(tt.fields, "Cache-Control: max-age=3600")...), t0.Add(-tt.delay), t0)
			if got := adm.Life.Age(t0); got != tt.want {
				t.Errorf("age on arrival %v, want %v", got, tt.want)
			}
			if got := adm.Life.Age(t0.Add(10 * sec)); got != tt.want+10*sec {
				t.Errorf("age ten seconds later %v, want %v", got, tt.want+10*sec)
			}
			if got := adm.Life.Age(t0.Add(-2 * Forever)); got != 0 {
				t.Errorf("age before its birth %v, want 0", got)
			}
		})
	}
}

// RFC 9111 §4.2.3: Date has whole seconds; a response that was made while it was waited for is as old as that took.
func TestApparentAgeCountsWholeSeconds(t *testing.T) {
	at := func(ms time.Duration) time.Time { return t0.Add(ms * time.Millisecond) }
	for name, c := range map[string]struct {
		request, response time.Time
		date              time.Duration
		want              time.Duration
	}{
		"this very second":               {at(900), at(900), 0, 0},
		"the next, when it came":         {at(990), at(1020), 0, 30 * time.Millisecond},
		"the next, made there":           {at(990), at(1020), sec, 30 * time.Millisecond},
		"three seconds under way":        {at(500), at(3500), 2 * sec, 3 * sec},
		"made before it was asked for":   {at(1010), at(1020), 0, sec},
		"long before":                    {at(990), at(1020), -sec, 2 * sec},
		"its clock is a little ahead":    {at(990), at(1020), 2 * sec, 30 * time.Millisecond},
		"ours went back while we waited": {at(1020), at(990), 0, 0},
	} {
		adm := Admit(nil, reads(), 200, fields("Cache-Control: max-age=1", "Date: "+date(c.date)), c.request, c.response)
		if got := adm.Life.Age(c.response); got != c.want {
			t.Errorf("%s: age %v, want %v", name, got, c.want)
		}
	}
}

func TestStrictAge(t *testing.T) {
	for value, fresh := range map[string]bool{
		"0": true, "5": true, "abc": false, "-1": false, "0, 0": false, "1.0": false, "3600": false,
	} {
		adm := Admit(&Settings{StrictAge: true}, reads(), 200, fields("Cache-Control: max-age=3600", "Age: "+value, "ETag: \"a\""), t0, t0)
		if got := Judge(adm.Life, reads(), t0).Use == Fresh; got != fresh {
			t.Errorf("Age %q: fresh = %v, want %v", value, got, fresh)
		}
	}
}

func TestStaleWindows(t *testing.T) {
	rule := &Settings{StaleWhileRevalidate: 7 * sec, StaleIfError: 8 * sec}
	override := &Settings{StaleWhileRevalidate: 7 * sec, StaleIfError: 8 * sec, Override: true}
	for name, tt := range map[string]struct {
		s        *Settings
		control  string
		swr, sie time.Duration
		mayStale bool
	}{
		"none by default":                                  {nil, "max-age=1", 0, 0, true},
		"RFC 5861 §3, §4 from the origin":                  {nil, "max-age=1, stale-while-revalidate=3, stale-if-error=4", 3 * sec, 4 * sec, true},
		"from the rule":                                    {rule, "max-age=1", 7 * sec, 8 * sec, true},
		"the origin's before the rule's":                   {rule, "max-age=1, stale-while-revalidate=3", 3 * sec, 8 * sec, true},
		"the origin's 0 before the rule's":                 {rule, "max-age=1, stale-while-revalidate=0, stale-if-error=0", 0, 0, true},
		"unreadable is 0":                                  {rule, "max-age=1, stale-while-revalidate=x", 0, 8 * sec, true},
		"override":                                         {override, "max-age=1, stale-while-revalidate=3, stale-if-error=4", 7 * sec, 8 * sec, true},
		"RFC 9111 §5.2.2.2 must-revalidate":                {rule, "max-age=1, must-revalidate", 0, 0, false},
		"must-revalidate forbids the origin's own":         {rule, "max-age=1, must-revalidate, stale-while-revalidate=3, stale-if-error=4", 0, 0, false},
		"must-revalidate stands an override":               {override, "max-age=1, must-revalidate", 0, 0, false},
		"RFC 9111 §5.2.2.8 proxy-revalidate":               {rule, "max-age=1, proxy-revalidate, stale-while-revalidate=3", 0, 0, false},
		"RFC 9111 §5.2.2.4 no-cache":                       {rule, "max-age=1, no-cache, stale-while-revalidate=3", 0, 0, false},
		"no-cache of a field forbids nothing":              {rule, `max-age=1, no-cache="x"`, 7 * sec, 8 * sec, true},
		"RFC 9111 §5.2.2.10 s-maxage":                      {rule, "s-maxage=1", 0, 0, false},
		"deviation: explicit window beside s-maxage":       {rule, "s-maxage=1, stale-while-revalidate=3", 3 * sec, 0, true},
		"deviation: explicit error window beside s-maxage": {rule, "s-maxage=1, stale-if-error=4", 0, 4 * sec, true},
		"window of 0 beside s-maxage":                      {rule, "s-maxage=1, stale-while-revalidate=0", 0, 0, false},
		"s-maxage and must-revalidate":                     {rule, "s-maxage=1, must-revalidate, stale-while-revalidate=3", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := lifeOf(t, tt.s, 200, "Cache-Control: "+tt.control, "ETag: \"a\"")
			if l.StaleFor != tt.swr || l.ErrorFor != tt.sie || l.forbidsStale() == tt.mayStale {
				t.Errorf("windows %v, %v, may be stale: %v; want %v, %v, %v", l.StaleFor, l.ErrorFor, !l.forbidsStale(), tt.swr, tt.sie, tt.mayStale)
			}
		})
	}
}

// A rule's windows are for good answers; an expired error is served for no longer than the origin asked.
func TestStaleWindowsOfErrors(t *testing.T) {
	rule := &Settings{StaleWhileRevalidate: 7 * sec, StaleIfError: 8 * sec}
	for _, status := range []int{500, 503, 599} {
		l := lifeOf(t, rule, status, "Cache-Control: max-age=1")
		if l.StaleFor != 0 || l.ErrorFor != 0 {
			t.Errorf("%d: windows %v, %v", status, l.StaleFor, l.ErrorFor)
		}
		l = lifeOf(t, rule, status, "Cache-Control: max-age=1, stale-while-revalidate=3, stale-if-error=4")
		if l.StaleFor != 3*sec || l.ErrorFor != 0 {
			t.Errorf("%d: stated windows %v, %v", status, l.StaleFor, l.ErrorFor)
		}
	}
	if l := lifeOf(t, rule, 404, "Cache-Control: max-age=1"); l.StaleFor != 7*sec || l.ErrorFor != 8*sec {
		t.Errorf("404: windows %v, %v", l.StaleFor, l.ErrorFor)
	}
}
