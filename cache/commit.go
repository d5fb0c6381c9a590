package cache

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/swrproxy/swrproxy/fill"
	"github.com/swrproxy/swrproxy/policy"
)

// errOvertaken is the reason of a refused commit.
var errOvertaken = errors.New("cache: overtaken by an invalidation or a newer fill")

// notStored are fields of a response that a record does not keep: each answer computes its own. So it does with Content-Range, where
// that means something: in a 206.
var notStored = []string{"Age", "Content-Length"}

// keptFields are the fields of a response that a record keeps.
func keptFields(status int, h http.Header, adm policy.Admission) Fields {
	return fieldsWithout(h, func(name string) bool {
		return slices.Contains(notStored, name) || status == http.StatusPartialContent && name == "Content-Range" ||
			slices.ContainsFunc(adm.Strip, func(s string) bool { return http.CanonicalHeaderKey(s) == name })
	})
}

// recordOf makes the record of a response, without its body.
func (fl *flight) recordOf(status int, h http.Header, adm policy.Admission, now time.Time) *Record {
	return fl.c.recordOf(fl.primary, fl.target, status, h, adm, now)
}

func (c *Cache) recordOf(primary string, target policy.Target, status int, h http.Header, adm policy.Admission, now time.Time) *Record {
	return &Record{
		Key:      primary,
		Primary:  primary,
		StoredAt: now.UTC().Round(0),
		Status:   status,
		Fields:   keptFields(status, h, adm),
		Life:     adm.Life,
		Tags:     c.tagsOf(target, h),
	}
}

// tagsOf are what invalidations by tag and by cache group compare.
func (c *Cache) tagsOf(target policy.Target, h http.Header) []string {
	return append(policy.Tags(h, c.tags), groupTags(target, policy.CacheGroups(h, "Cache-Groups"))...)
}

// commit publishes rec unless something newer overtook it: an invalidation, a forced refresh, a younger fill. h are the response's fields, base is the
// record that rec is made of, if any.
func (fl *flight) commit(rec *Record, h http.Header, base *Record) {
	if fl.lease != nil {
		if err := fl.mayCommit(); err != nil {
			fl.c.notCommitted(fl, err)
			return
		}
	}
	vary, star := policy.VaryOf(h)
	if star {
		if base != nil {
			fl.c.w.drop(base, fl.token)
		}
		return
	}
	ch := &change{rec: rec, vary: vary, asked: fl.req.Header, settings: &fl.rule.settings, base: base, blank: fl.blank, version: fl.version}
	switch fl.c.w.commit(&fl.ticket, ch) {
	case PutStored:
		fl.tellSuccessor()
	case PutOlder:
		fl.c.notCommitted(fl, errOvertaken)
	case PutRefused:
		fl.c.obs.Noted(&Note{Kind: NoteStore, Key: fl.url(), Text: "store refused the record"})
	}
}

// mayCommit asks the lease. Among the fills of one process a late result is not wasted: who only outlived its tenure may commit although
// somebody newer holds the key by now; the store compares tokens. Otherwise an origin slower than the tenure would never be cached.
func (fl *flight) mayCommit() error {
	err := fl.lease.CheckCommit()
	if fl.c.local && errors.Is(err, fill.ErrLeaseLost) && errors.Is(context.Cause(fl.lease.Context()), fill.ErrTenureOver) {
		return nil
	}
	return err
}

// tellSuccessor wakes those who wait for a newer fill of the same key: a late result has come that may do for them.
func (fl *flight) tellSuccessor() {
	if next := fl.c.flights.successor(fl); next != nil && next.lease != nil {
		next.lease.Announce()
	}
}

func (c *Cache) notCommitted(fl *flight, err error) {
	c.obs.Noted(&Note{Kind: NoteCommit, Key: fl.url(), Text: "result of the fill dropped", Err: err})
}
