package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

// Selector says what a purge reaches. Exactly one field is set; more or none is an error.
type Selector struct {
	// URL is one absolute URL, all its variants included, under every rule.
	URL string
	// Tags are surrogate keys, compared whole: a record with any of them is reached.
	Tags []string
	// Prefix is the beginning of absolute URLs.
	Prefix string
	// Glob is a pattern for absolute URLs in which * stands for any run of characters, slashes included.
	Glob string
	// Host is an authority: "example.org", "example.org:8080".
	Host string
	// All reaches everything.
	All bool
}

// PurgeOptions change what a purge does.
type PurgeOptions struct {
	// By says who asked, for the observer: "admin 127.0.0.1:4711". Empty means unknown.
	By string
	// Soft makes records stale from now on in place of removing them: they are served by their stale windows and refreshed. A soft
	// purge only ever moves deadlines earlier; records that must be revalidated are removed from use.
	Soft bool
	// DryRun counts what would be reached and changes nothing.
	DryRun bool
	// NoWait returns when the purge is in force and durable, without counts, where counting takes a walk over the store: for Prefix, Glob, Host and
	// All, and for the others in a store that is no Finder. A store that keeps records over a restart without a Journal is waited for all the same.
	NoWait bool
	// Reached is called with the URL of each response that the purge reaches, on one goroutine, variants one by one: the same URL may come
	// several times. If ctx ends before the purge has, Reached may still be called after Purge has returned. Nil is not called.
	Reached func(url string)
}

// PurgeResult says what a purge did.
type PurgeResult struct {
	// Records is how many stored responses it reached.
	Records int
	// Pending means that the purge is in force, and that it is not known yet what it reaches: see PurgeOptions.NoWait.
	Pending bool
	// Tiers is how many of them each tier held, if the store tells (see [Locator]); else nil.
	Tiers map[string]int
	// Keys are the keys of the first of them, at most 100, in readable form.
	Keys []string
}

// maxPurgeKeys bounds PurgeResult.Keys.
const maxPurgeKeys = 100

var (
	// ErrSelector is wrapped by the errors of Purge that are the caller's.
	ErrSelector = errors.New("cache: bad selector")
	// ErrPurgeBacklog is returned by Purge when ctx ended while the invalidation log was full; nothing was invalidated.
	ErrPurgeBacklog = errors.New("cache: too many purges wait to be applied")
)

// Purge invalidates what sel selects, from the moment it returns at the latest: no later read gets what was stored before, and no fill that
// began before brings it back, after a restart neither if the store keeps records.
//
// In a store that is a Finder, a purge by URL or tags takes time by what it reaches. All others are applied by a walk over the store, which takes
// all purges along that wait for it; they are in force before it begins. The log of purges that are not applied yet is bounded; Purge waits for room
// in it.
//
// If ctx ends first Purge returns its cause; the invalidation holds in this process all the same and is carried out in the
// background. An error from a store that could not write comes with the result: the purge holds until the process ends. Other
// errors: ErrSelector, ErrClosed, ErrPurgeBacklog.
func (c *Cache) Purge(ctx context.Context, sel Selector, opt PurgeOptions) (PurgeResult, error) {
	scopes, err := c.scopes(sel)
	if err != nil {
		return PurgeResult{}, err
	}
	if !c.work.enter() {
		return PurgeResult{}, ErrClosed
	}
	defer c.work.leave()
	c.awaitCommits(ctx)
	p := newPurge(scopes, opt)
	p.event.Selector, p.event.Value = sel.describe()
	if !opt.DryRun {
		if err := c.w.makeRoom(ctx, &c.walks); err != nil {
			return PurgeResult{}, err
		}
		c.log(p)
	}
	c.apply(p)
	return p.wait(ctx)
}

// describe names what is selected, for the observer.
func (s Selector) describe() (kind, value string) {
	switch {
	case s.URL != "":
		kind, value = "url", s.URL
	case len(s.Tags) > 0:
		kind, value = "tag", strings.Join(s.Tags, " ")
	case s.Prefix != "":
		kind, value = "prefix", s.Prefix
	case s.Glob != "":
		kind, value = "glob", s.Glob
	case s.Host != "":
		kind, value = "host", s.Host
	default:
		kind = "all"
	}
	return kind, cutText(value, maxPurgeValue)
}

// maxPurgeValue bounds PurgeEvent.Value, in bytes.
const maxPurgeValue = 200

// cutText returns at most n bytes of s, whole characters, and says if that is not all.
func cutText(s string, n int) string {
	const more = "…"
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len(more)], "") + more
}

// scopes turns a selector into log scopes.
func (c *Cache) scopes(sel Selector) ([]scope, error) {
	var out []scope
	set := 0
	one := func(is bool, add func() error) error {
		if !is {
			return nil
		}
		set++
		return add()
	}
	err := errors.Join(
		one(sel.All, func() error { out = append(out, scope{kind: scopeAll}); return nil }),
		one(sel.Host != "", func() error { out = append(out, scope{scopeHost, strings.ToLower(sel.Host)}); return nil }),
		one(sel.Prefix != "", func() error { out = append(out, scope{scopePrefix, sel.Prefix}); return nil }),
		one(sel.Glob != "", func() error { out = append(out, scope{scopeGlob, sel.Glob}); return nil }),
		one(len(sel.Tags) > 0, func() error { out = append(out, tagScopes(sel.Tags)...); return nil }),
		one(sel.URL != "", func() (err error) { out, err = c.urlScopes(sel.URL); return err }),
	)
	if err != nil {
		return nil, err
	}
	if set != 1 {
		return nil, fmt.Errorf("%w: %d of url, tags, prefix, glob, host, all are set; set exactly one", ErrSelector, set)
	}
	return out, nil
}

func tagScopes(tags []string) []scope {
	out := make([]scope, 0, len(tags))
	for _, t := range tags {
		out = append(out, scope{scopeTag, t})
	}
	return out
}

// urlScopes are the places where the rules could have stored a URL.
func (c *Cache) urlScopes(raw string) ([]scope, error) {
	t, err := targetOf(raw)
	if err != nil {
		return nil, err
	}
	return c.targetScopes(t), nil
}

func targetOf(raw string) (policy.Target, error) {
	u, err := url.Parse(raw)
	if err != nil || !u.IsAbs() || u.Host == "" {
		return policy.Target{}, fmt.Errorf("%w: url %q is not absolute; write it as http://host/path", ErrSelector, raw)
	}
	t, err := policy.NewTarget(&http.Request{Method: http.MethodGet, URL: u, Host: u.Host}, u.Scheme)
	if err != nil {
		return t, fmt.Errorf("%w: url %q: %w", ErrSelector, raw, err)
	}
	return t, nil
}

func (c *Cache) targetScopes(t policy.Target) []scope {
	t.Method = http.MethodGet
	var out []scope
	for _, r := range c.rules.Load().rules {
		if !r.pass {
			key := string(r.key.Append(nil, &t, nil))
			out = append(out, scope{scopeURL, urlPrefix(key)})
		}
	}
	return out
}

// invalidateBy invalidates what an unsafe request's successful answer says has changed: RFC 9111 §4.4, RFC 9875 §3. It returns how many entries
// that made.
func (c *Cache) invalidateBy(rd *read, h http.Header) (entries int) {
	scopes := c.targetScopes(rd.target)
	for _, t := range policy.InvalidatedTargets(rd.target, h) {
		scopes = append(scopes, c.targetScopes(t)...)
	}
	scopes = append(scopes, tagScopes(groupTags(rd.target, policy.CacheGroups(h, "Cache-Group-Invalidation")))...)
	p := newPurge(scopes, PurgeOptions{By: rd.r.Method + " " + rd.r.RemoteAddr})
	p.event.Selector, p.event.Value = "unsafe", cutText(rd.target.Scheme+"://"+rd.target.Authority+rd.target.Path, maxPurgeValue)
	p.unsafe = true
	c.invalidate(p)
	return len(scopes)
}

// syncWait is how long the answer to an unsafe request waits until what it invalidated is gone from disk as well: many times what a
// disk takes that works.
const syncWait = time.Second

// invalidate makes entries that hold at once, and waits until what an index finds is gone for good, or syncWait. What only a walk finds is
// left to a walk behind the caller's back.
func (c *Cache) invalidate(p *purge) {
	c.log(p)
	if !c.work.enter() {
		return // the store is being closed; what is read here is judged by the log
	}
	defer c.work.leave()
	c.apply(p)
	timer := time.NewTimer(2 * syncWait) // for a crowd of records; the store's own limit is shorter
	defer timer.Stop()
	select {
	case <-p.found:
		if p.foundErr == nil {
			return
		}
	case <-timer.C:
	}
	c.obs.Noted(&Note{Kind: NoteStore, Text: "what an unsafe request invalidated may come back if the process is killed now"})
}

// groupTags are the tags of cache groups, which count for one origin only: RFC 9875 §2.
func groupTags(t policy.Target, groups []string) []string {
	out := make([]string, 0, len(groups))
	for _, g := range groups {
		out = append(out, "group "+t.Scheme+"://"+t.Authority+" "+g)
	}
	return out
}
