package config

import (
	"fmt"
	"strings"

	"github.com/swrproxy/swrproxy/policy"
)

func (s *source) checkRules(cfg *Config) {
	if len(cfg.Rules) == 0 && len(cfg.Origins) > 1 && s.clean("rules") {
		s.fail("origins", "there are several origins and no rules to choose between them",
			"add rules: [ { match: { host: … }, origin: "+cfg.originNames()[0]+" }, … ]")
	}
	used := map[string]bool{}
	for i, r := range cfg.Rules {
		path := rulePath(i)
		used[r.Origin] = true
		if s.clean(path) {
			s.checkRule(cfg, path, r)
		}
	}
	s.checkNames(cfg)
	s.checkReach(cfg)
	for _, name := range cfg.originNames() {
		if len(cfg.Rules) > 0 && !used[name] {
			s.warn("origins."+name, "no rule uses this origin", "add a rule with origin: "+name+", or remove it")
		}
	}
}

func (s *source) checkRule(cfg *Config, path string, r Rule) {
	s.checkRuleOrigin(cfg, path, r)
	s.checkKey(path+".key", r.Key)
	s.checkOverride(path, r)
	s.checkPass(path, r)
	if r.SetCookie == "keep" {
		s.warn(path+".set_cookie", "a stored Set-Cookie is given to every reader: one visitor's session becomes everybody's",
			"use strip, which stores the response without the cookie")
	}
	if r.Authorized {
		s.warn(path+".authorized", "answers to requests with Authorization are shared with everybody, whoever may see them",
			"let the origin say Cache-Control: public, or pass these requests")
	}
}

// checkPass refuses what only stored answers have. Flags are spared: they are for every rule, whether or not they suit it.
func (s *source) checkPass(path string, r Rule) {
	if !r.Pass {
		return
	}
	for key, set := range map[string]bool{
		"ttl": r.TTL != 0, "status_ttl": len(r.StatusTTL) > 0, "override": r.Override,
		"stale_while_revalidate": r.StaleWhileRevalidate != 0, "stale_if_error": r.StaleIfError != 0,
		"set_cookie": r.SetCookie != "refuse", "authorized": r.Authorized, "semantics": r.Semantics != (Semantics{}),
	} {
		_, byFlag := s.flags[join(path, key)]
		s.noEffect(set && !byFlag, join(path, key), "in a rule with pass: true, which stores nothing", "remove it, or remove pass")
	}
}

func (s *source) checkRuleOrigin(cfg *Config, path string, r Rule) {
	names := cfg.originNames()
	if _, ok := cfg.Origins[r.Origin]; ok || len(names) == 0 {
		return
	}
	if r.Origin == "" {
		s.fail(path, "the rule has no origin, and there are several", "add origin: "+orList(names))
		return
	}
	mend := "the origins are " + strings.Join(names, ", ")
	if near := nearest(r.Origin, names); near != "" {
		mend = "did you mean " + near + "? " + mend
	}
	s.fail(path+".origin", fmt.Sprintf("there is no origin %q", r.Origin), mend)
}

func (s *source) checkKey(path string, k Key) {
	q := k.Query
	const when, mend = "beside ignore_all: true", "remove one of the two"
	s.noEffect(q.IgnoreAll && len(q.Ignore) > 0, path+".query.ignore", when, mend)
	s.noEffect(q.IgnoreAll && len(q.Only) > 0, path+".query.only", when, mend)
	s.noEffect(q.IgnoreAll && q.Sort, path+".query.sort", when, mend)
	for i, f := range k.Headers {
		if strings.EqualFold(string(f), "Cookie") {
			s.fail(fmt.Sprintf("%s.headers[%d]", path, i), "the whole Cookie field in the key makes a record per visitor", "name the cookies that matter in key.cookies")
		}
	}
}

// checkOverride is loud about rules that share answers whatever the origin says.
func (s *source) checkOverride(path string, r Rule) {
	if !r.Override {
		return
	}
	if r.TTL == 0 && len(r.StatusTTL) == 0 && r.StaleWhileRevalidate == 0 && r.StaleIfError == 0 {
		s.fail(path+".override", "override has nothing to put in the origin's place", "add ttl, status_ttl, stale_while_revalidate or stale_if_error")
		return
	}
	mend := "make sure that no answer of this rule depends on who asks; put cookies that matter in key.cookies, or pass them"
	s.warn(path+".override", "the origin's own lifetimes are replaced for everything that this rule matches (no-store, private, Set-Cookie and Authorization keep their force)", mend)
}

func (s *source) checkNames(cfg *Config) {
	first := map[string]int{}
	for i, r := range cfg.Rules {
		path := rulePath(i)
		j, twice := first[r.Name]
		switch {
		case !twice:
			first[r.Name] = i
		case s.given(path + ".name"):
			s.fail(path+".name", fmt.Sprintf("rule %d has the name %q already", j+1, r.Name), "records are kept apart by rule name: give each its own")
		case s.given(rulePath(j) + ".name"):
			s.fail(path, fmt.Sprintf("rule %d has the name %q, which this rule would have by default", j+1, r.Name), "add name: …")
		} // two rules without names are only named alike if they match alike, which checkReach reports
	}
}

// checkReach finds rules that no request can reach because an earlier one takes them all.
func (s *source) checkReach(cfg *Config) {
	matches := make([]*policy.Match, len(cfg.Rules))
	for i, r := range cfg.Rules {
		if s.clean(rulePath(i)) {
			matches[i] = s.compile(rulePath(i), r)
		}
	}
	for i, m := range matches {
		for j := range i {
			if m != nil && matches[j] != nil && matches[j].Covers(m) {
				s.fail(rulePath(i), fmt.Sprintf("no request reaches this rule: rule %d (%s) matches everything that it does", j+1, cfg.Rules[j].Name),
					"put the narrower rule first, or remove one")
				break
			}
		}
	}
}

// compile makes a rule's matcher; its patterns were checked one by one, so an error is about their combination.
func (s *source) compile(path string, r Rule) *policy.Match {
	m, err := policy.NewMatch(r.Match.MatchSpec())
	if err != nil {
		s.fail(path+".match", err.Error(), "mend the pattern")
		return nil
	}
	spec := r.Key.KeySpec()
	spec.Space = r.Name
	if _, err := policy.NewKey(spec); err != nil {
		s.fail(path+".key", err.Error(), "mend the key")
	}
	return m
}
