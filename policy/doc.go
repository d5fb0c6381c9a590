// Package policy is the pure judgement of an HTTP cache: which requests may be answered from storage, under which
// key, for how long, and what a new response means for a stored one.
//
// # Usage
//
// A read goes through the package in this order:
//
//	target, err := policy.NewTarget(r, "https")        // one normalised form to match, key and forward
//	req := policy.ReadRequest(r, settings.Directives)   // what of the request matters to a cache
//	if reason, pass := policy.Pass(&req, settings); pass { … forward, store nothing … }
//	key := compiled.Append(nil, &target, r.Header)      // primary key
//	verdict := policy.Judge(record.Life, &req, now)     // Fresh, StaleWhileRevalidate, MustWait
//
// and a response through this one:
//
//	adm := policy.Admit(settings, &req, status, header, requestAt, responseAt)
//	fields, star := policy.VaryOf(header)
//	secondary := policy.AppendVariant(nil, fields, r.Header)
//
// # Concurrency
//
// Nothing here has state, reads the clock, starts goroutines or does I/O: the caller passes the time. Compiled values
// (Key, Match) are immutable and safe for concurrent use. Functions never change the header that they are given,
// except StripConditions, EnsureDate and AddCacheStatus, whose purpose it is.
//
// # Errors
//
// Only constructors of configuration (NewKey, NewMatch) and NewTarget return errors. Everything that comes from the
// network and cannot be understood is judged by the careful reading that the RFC recommends, and never fails.
//
// # RFC coverage
//
// RFC 9111 (all response and request directives, heuristics, Age, Vary, validation, freshening, invalidation, partial
// content), RFC 9110 §8.8, §13, §14 (validators, conditions, ranges), RFC 5861, RFC 8246, RFC 9211, RFC 9213, RFC
// 9875 (groups). docs/rfc.md lists every requirement with the test that shows it; knowing departures are marked
// "Deviation:".
//
// # Limits
//
// Accept-Encoding and Accept-Language with more than 16 members are compared as plain lists. Up to 64 query parameters
// are sorted without allocation. A Range field yields at most MaxRanges parts. Cache-Groups yields at most 128 groups.
// The 50-year rule for two-digit years (RFC 9110 §5.6.7) is not applied, since it needs a clock. No-Vary-Search is not
// implemented: a key would have to be found before its response is known.
package policy
