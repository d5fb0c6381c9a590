package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var unexported = cmp.AllowUnexported(responseControl{})

func TestReadCacheControl(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  responseControl
	}{
		"absent":                            {nil, responseControl{}},
		"empty":                             {[]string{""}, responseControl{}},
		"empty members":                     {[]string{", ,,\t,"}, responseControl{}},
		"RFC 9111 §5.2.2.1 max-age":         {[]string{"max-age=3600"}, responseControl{maxAge: span(3600)}},
		"RFC 9111 §5.2.2.2 must-revalidate": {[]string{"must-revalidate"}, responseControl{mustRevalidate: true}},
		"RFC 9111 §5.2.2.3 must-understand": {[]string{"must-understand, no-store"}, responseControl{mustUnderstand: true, noStore: true}},
		"RFC 9111 §5.2.2.4 no-cache":        {[]string{"no-cache"}, responseControl{noCache: true}},
		"RFC 9111 §5.2.2.4 no-cache of fields": {
			[]string{`no-cache="set-cookie, X-a"`},
			responseControl{fields: []string{"Set-Cookie", "X-A"}},
		},
		"RFC 9111 §5.2.2.4 token in place of a quoted list": {[]string{`no-cache=set-cookie`}, responseControl{fields: []string{"Set-Cookie"}}},
		"no-cache of no field concerns all":                 {[]string{`no-cache=""`}, responseControl{noCache: true}},
		"no-cache of something else concerns all":           {[]string{`no-cache="a b, c"`}, responseControl{noCache: true, fields: []string{"C"}}},
		"no-cache with an unreadable argument concerns all": {[]string{`no-cache="a`}, responseControl{noCache: true, invalid: true}},
		"RFC 9111 §5.2.2.5 no-store":                        {[]string{"No-StOrE"}, responseControl{noStore: true}},
		"RFC 9111 §5.2.2.6 no-transform":                    {[]string{"no-transform"}, responseControl{noTransform: true}},
		"RFC 9111 §5.2.2.7 private":                         {[]string{"private"}, responseControl{private: true}},
		"RFC 9111 §5.2.2.7 private of fields":               {[]string{`private="a"`}, responseControl{fields: []string{"A"}}},
		"RFC 9111 §5.2.2.8 proxy-revalidate":                {[]string{"proxy-revalidate"}, responseControl{proxyRevalidate: true}},
		"RFC 9111 §5.2.2.9 public":                          {[]string{"public"}, responseControl{public: true}},
		"RFC 9111 §5.2.2.10 s-maxage":                       {[]string{"s-maxage=2"}, responseControl{sMaxAge: span(2)}},
		"RFC 9111 §5.2.3 extensions":                        {[]string{`x, y=1, z="a,b", max-age=1`}, responseControl{maxAge: span(1)}},
		"RFC 8246 §2 immutable":                             {[]string{"immutable"}, responseControl{immutable: true}},
		"RFC 5861 windows": {
			[]string{"stale-while-revalidate=3, stale-if-error=4"},
			responseControl{staleWhileRevalidate: span(3), staleIfError: span(4)},
		},
		"unreadable windows are none": {
			[]string{"stale-while-revalidate=x, stale-if-error"},
			responseControl{staleWhileRevalidate: span(0), staleIfError: span(0)},
		},
		"RFC 9110 §5.3 several lines":          {[]string{"max-age=1", "public", "s-maxage=2"}, responseControl{maxAge: span(1), sMaxAge: span(2), public: true}},
		"quoted argument":                      {[]string{`max-age="3600"`}, responseControl{maxAge: span(3600)}},
		"quoted argument with an escape":       {[]string{`max-age="36\00"`}, responseControl{maxAge: span(3600)}},
		"directive in a quoted string, before": {[]string{`ext="max-age=3600", max-age=1`}, responseControl{maxAge: span(1)}},
		"directive in a quoted string, after":  {[]string{`max-age=1, ext="max-age=3600"`}, responseControl{maxAge: span(1)}},
		"escaped quote in a quoted string":     {[]string{`ext="\", no-store, \"", max-age=1`}, responseControl{maxAge: span(1)}},
		"RFC 9111 §1.2.2 leading zeros":        {[]string{"max-age=003600"}, responseControl{maxAge: span(3600)}},
		"RFC 9111 §1.2.2 overflow of 31 bits":  {[]string{"max-age=2147483649"}, responseControl{maxAge: Span{Forever, true}}},
		"RFC 9111 §1.2.2 overflow of 64 bits":  {[]string{"max-age=99999999999999999999999"}, responseControl{maxAge: Span{Forever, true}}},

		// RFC 9111 §4.2.1: invalid freshness information is to be considered stale.
		"single quotes":                      {[]string{"max-age='3600'"}, responseControl{maxAge: span(0)}},
		"fraction":                           {[]string{"max-age=3600.5"}, responseControl{maxAge: span(0)}},
		"negative":                           {[]string{"max-age=-3600"}, responseControl{maxAge: span(0)}},
		"plus sign":                          {[]string{"max-age=+3600"}, responseControl{maxAge: span(0)}},
		"unit":                               {[]string{"max-age=30s"}, responseControl{maxAge: span(0)}},
		"leading letter":                     {[]string{"max-age=a30"}, responseControl{maxAge: span(0)}},
		"no argument":                        {[]string{"max-age"}, responseControl{maxAge: span(0)}},
		"empty argument":                     {[]string{"max-age="}, responseControl{maxAge: span(0), invalid: true}},
		"space before the equals":            {[]string{"max-age =3600"}, responseControl{maxAge: span(0), invalid: true}},
		"space after the equals":             {[]string{"max-age= 3600"}, responseControl{maxAge: span(0), invalid: true}},
		"unterminated quote":                 {[]string{`max-age="3600`}, responseControl{maxAge: span(0), invalid: true}},
		"semicolons":                         {[]string{"public; max-age=30"}, responseControl{maxAge: span(0), invalid: true}},
		"semicolons after private":           {[]string{"private; max-age=30"}, responseControl{maxAge: span(0), private: true, invalid: true}},
		"unterminated quote around no-store": {[]string{`ext="x, no-store`}, responseControl{noStore: true, invalid: true}},
		"not a directive":                    {[]string{"&@x é, max-age=3"}, responseControl{maxAge: span(3), invalid: true}},
		"missing comma":                      {[]string{"no-store max-age=30"}, responseControl{maxAge: span(0), noStore: true, invalid: true}},

		// RFC 9111 §4.2.1: of repeated values the first, or stale; the smallest is never longer than that.
		"two values, shorter last":     {[]string{"max-age=1800, max-age=1"}, responseControl{maxAge: span(1)}},
		"two values, shorter first":    {[]string{"max-age=1, max-age=1800"}, responseControl{maxAge: span(1)}},
		"two values on two lines":      {[]string{"max-age=1800", "max-age=1"}, responseControl{maxAge: span(1)}},
		"two values, one unreadable":   {[]string{"max-age=1800, max-age=x"}, responseControl{maxAge: span(0)}},
		"conflicting with no-cache":    {[]string{"max-age=9, no-cache"}, responseControl{maxAge: span(9), noCache: true}},
		"public and private: both set": {[]string{"public, private"}, responseControl{public: true, private: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readCacheControl(tt.lines), unexported); diff != "" {
				t.Errorf("control (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadTargeted(t *testing.T) {
	ok := func(c responseControl) *responseControl { c.targeted = true; return &c }
	for name, tt := range map[string]struct {
		lines []string
		want  *responseControl // nil: the field is to be ignored
	}{
		"RFC 9213 §2.1 integer":                           {[]string{"max-age=3600"}, ok(responseControl{maxAge: span(3600)})},
		"RFC 9213 §2.1 boolean":                           {[]string{"no-store"}, ok(responseControl{noStore: true})},
		"boolean written out":                             {[]string{"no-store=?1, public=?0"}, ok(responseControl{noStore: true})},
		"large integer":                                   {[]string{"max-age=99999999999"}, ok(responseControl{maxAge: Span{Forever, true}})},
		"negative integer":                                {[]string{"max-age=-1"}, ok(responseControl{maxAge: span(0)})},
		"RFC 9213 §2.1 unknown directives":                {[]string{"foobar, x=(1 2), y=\"z\", max-age=1"}, ok(responseControl{maxAge: span(1)})},
		"RFC 9213 §2.1 only unknown directives":           {[]string{"foobar"}, ok(responseControl{})},
		"RFC 9213 §2.1 parameters are ignored":            {[]string{"max-age=1;a=b, no-cache;x"}, ok(responseControl{maxAge: span(1), noCache: true})},
		"qualified form":                                  {[]string{`private="a, b"`}, ok(responseControl{fields: []string{"A", "B"}})},
		"RFC 9651 §3.2 of a repeated key the last counts": {[]string{"max-age=1, max-age=5"}, ok(responseControl{maxAge: span(5)})},
		"several lines":                                   {[]string{"max-age=1", "stale-while-revalidate=2"}, ok(responseControl{maxAge: span(1), staleWhileRevalidate: span(2)})},

		"RFC 9213 §2.2 empty":             {[]string{""}, nil},
		"RFC 9651 §4.2 unknown type":      {[]string{"max-age=10000, &&&&&"}, nil},
		"RFC 9651 §3.2 upper-case key":    {[]string{"MaX-aGe=3600"}, nil},
		"RFC 9651 §4.2 trailing comma":    {[]string{"max-age=1,"}, nil},
		"space before the equals":         {[]string{"max-age =100"}, nil},
		"space after the equals":          {[]string{"max-age= 100"}, nil},
		"wrong type: string":              {[]string{`max-age="10000"`}, nil},
		"wrong type: decimal":             {[]string{"max-age=1.5"}, nil},
		"wrong type: no value":            {[]string{"max-age"}, nil},
		"wrong type: inner list":          {[]string{"max-age=(1)"}, nil},
		"wrong type: integer for boolean": {[]string{"no-store=1"}, nil},
		"wrong type: list for boolean":    {[]string{"private=(a)"}, nil},
		"wrong type: token for string":    {[]string{"no-cache=set-cookie"}, nil},
		"integer of 16 digits":            {[]string{"max-age=1000000000000000"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, valid := readTargeted(tt.lines)
			if valid != (tt.want != nil) {
				t.Fatalf("valid = %v: %+v", valid, got)
			}
			if tt.want == nil {
				tt.want = &responseControl{}
			}
			if diff := cmp.Diff(*tt.want, got, unexported); diff != "" {
				t.Errorf("control (-want +got):\n%s", diff)
			}
		})
	}
}

// RFC 9213 §2.2: the first valid field of the list replaces Cache-Control and Expires.
func TestTargetList(t *testing.T) {
	for name, tt := range map[string]struct {
		targets []string
		fields  []string
		want    time.Duration
	}{
		"CDN-Cache-Control first":     {nil, []string{"swrproxy-Cache-Control: max-age=2", "CDN-Cache-Control: max-age=1", "Cache-Control: max-age=3"}, 1 * sec},
		"own field second":            {nil, []string{"swrproxy-Cache-Control: max-age=2", "Cache-Control: max-age=3"}, 2 * sec},
		"invalid first, second used":  {nil, []string{"swrproxy-Cache-Control: max-age=2", "CDN-Cache-Control: max-age='1'", "Cache-Control: max-age=3"}, 2 * sec},
		"all invalid":                 {nil, []string{"CDN-Cache-Control: &", "Cache-Control: max-age=3"}, 3 * sec},
		"empty field":                 {nil, []string{"CDN-Cache-Control:", "Cache-Control: max-age=3"}, 3 * sec},
		"other order":                 {[]string{"swrproxy-cache-control", "cdn-cache-control"}, []string{"swrproxy-Cache-Control: max-age=2", "CDN-Cache-Control: max-age=1"}, 2 * sec},
		"none":                        {[]string{}, []string{"CDN-Cache-Control: max-age=1", "Cache-Control: max-age=3"}, 3 * sec},
		"another":                     {[]string{"Acme-Cache-Control"}, []string{"CDN-Cache-Control: max-age=1", "Acme-Cache-Control: max-age=4"}, 4 * sec},
		"Expires does not count":      {nil, []string{"CDN-Cache-Control: public", "Expires: " + date(60*sec), "ETag: \"a\""}, 0},
		"Expires counts when invalid": {nil, []string{"CDN-Cache-Control: &", "Expires: " + date(60*sec)}, 60 * sec},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(&Settings{Targets: tt.targets}, reads(), 200, fields(tt.fields...), t0, t0)
			if got.Life.FreshFor != tt.want {
				t.Errorf("FreshFor = %v, want %v", got.Life.FreshFor, tt.want)
			}
		})
	}
}
