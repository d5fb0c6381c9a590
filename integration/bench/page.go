package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// page is docs/performance.md with the figures behind it.
type page struct {
	file, results string
	last          []result
	machine       string
	lookups       string
	purges        string
}

// openPage reads the last figures.
func openPage(o options) (*page, error) {
	p := &page{file: o.page, results: o.results, machine: machine()}
	var err error
	if p.lookups, err = lookups(o.here); err != nil {
		return nil, err
	}
	if p.purges, err = purgesOnPage(o.here); err != nil {
		return nil, err
	}
	if o.results == "" {
		return p, nil
	}
	b, err := os.ReadFile(o.results)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &p.last); err != nil {
		return nil, fmt.Errorf("%s: %w", o.results, err)
	}
	return p, nil
}

// put replaces a scenario's figures and writes the page.
func (p *page) put(res result) error {
	var kept []result
	for _, s := range scenarios {
		for _, r := range append(p.last, res) {
			if r.Scenario == s.name && (r.Scenario != res.Scenario || r.At.Equal(res.At)) {
				kept = append(kept, r)
			}
		}
	}
	p.last = kept
	if p.results != "" {
		b, err := json.MarshalIndent(p.last, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(p.results, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if p.file == "" {
		return nil
	}
	return os.WriteFile(p.file, []byte(p.text()), 0o644)
}

// text is the whole page.
func (p *page) text() string {
	var b strings.Builder
	b.WriteString("# Performance\n\nMeasured by `make bench-peers` and written by it. Every server has one core; the load generator and the origin have another. In each round\n" +
		"every server gets one run, one after the other; figures are medians over the rounds, ratios medians of the rounds' ratios. CPU is what the\n" +
		"kernel booked on the server's processes. *Others* is what processes without a part in this used, of both cores together\n" +
		"(100 % is one core). Where a server's core, ours or the other's, was less than 90 % busy, or less than 98 % while the generator\n" +
		"itself used 90 % of its own, the generator was the limit, and the ratio by CPU per request is judged in\n" +
		"place of that of rates; where others used more than a third of a core, targets are not judged.\n" +
		"No server writes an access log. That hits are hits and misses are misses is checked by the origin's own count of requests.\n\n")
	b.WriteString("## Targets\n\n| scenario | against | target | measured | | by CPU per request |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, s := range scenarios {
		for _, j := range judge(s, p.of(s.name)) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.title, j.than, j.wanted(), j.figure(), j.verdict(), j.figureCPU())
		}
	}
	b.WriteString("\n" + p.lookups + p.purges + "## Machine\n\n" + p.machine + "\n## Figures\n\n")
	for _, r := range p.last {
		b.WriteString(table(r) + "\n")
	}
	b.WriteString("## Commands\n\nNames in capitals are addresses, ports and directories that are chosen at each start. RAM is a directory in memory, DISK one on a disk.\n\n```\n")
	for _, line := range p.commands() {
		b.WriteString(line + "\n")
	}
	b.WriteString("```\n\n## Configurations\n")
	for _, c := range []struct{ name, lang, text string }{
		{"nginx", "nginx", nginxConf},
		{"Varnish", "vcl", varnishConf},
		{"swrproxy (the line `disk` only for the scenarios that have to do with it)", "yaml", oursConf},
		{"origin (nginx)", "nginx", strings.NewReplacer("%[1]s", "RAM", "%[2]s", "ORIGIN", "%[3]s", "1 KiB of text").Replace(originConf)},
		{"misses, for wrk", "lua", missScript},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n```%s\n%s```\n", c.name, c.lang, c.text)
	}
	return b.String()
}

// rewrite makes the page anew from the last figures.
func rewrite(here string) error {
	root := filepath.Join(here, "..", "..")
	p, err := openPage(options{here: here, page: filepath.Join(root, "docs", "performance.md"), results: filepath.Join(here, "results.json")})
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, []byte(p.text()), 0o644)
}

func (p *page) of(name string) result {
	for _, r := range p.last {
		if r.Scenario == name {
			return r
		}
	}
	return result{}
}

// commands are the command lines of servers and generators.
func (p *page) commands() []string {
	return []string{
		"taskset -c 0 nginx -c RAM/nginx.conf",
		"taskset -c 0 varnishd -F -n RAM/work -a PLAIN -f default.vcl " + strings.Join(varnishArgs, " "),
		"GOMAXPROCS=1 taskset -c 0 swrproxy --config swrproxy.yaml",
		"taskset -c 1 nginx -c RAM/origin.conf",
		"taskset -c 1 wrk -t1 -c64 -d2s --latency http://PLAIN/1k",
		"taskset -c 1 wrk -t1 -c64 -d2s --latency -H 'If-None-Match: \"v1\"' http://PLAIN/1k",
		"taskset -c 1 wrk -t1 -c64 -d2s --latency -s miss.lua http://PLAIN/miss/ -- /miss/RUN/",
		"taskset -c 1 wrk -t1 -c1 -d2s --latency http://PLAIN/files/10m",
		"taskset -c 1 h2load -t1 -c16 -m8 -D 2 https://SECURE/1k",
	}
}

// machine describes where this runs.
func machine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n")
	row := func(name, value string) { fmt.Fprintf(&b, "| %s | %s |\n", name, value) }
	row("CPU", fmt.Sprintf("%s, %d cores", inFile("/proc/cpuinfo", `model name\s*: (.*)`), runtime.NumCPU()))
	row("memory", inFile("/proc/meminfo", `MemTotal:\s*(.*)`))
	row("kernel", inFile("/proc/version", `Linux version (\S+)`))
	row("TCP", inFile("/proc/sys/net/ipv4/tcp_congestion_control", `(.*)`))
	row("Go", goVersion())
	row("nginx", saidBy(`nginx/(\S+)`, "nginx", "-v"))
	row("Varnish", saidBy(`varnish-(\S+)`, "varnishd", "-V"))
	row("wrk", saidBy(`wrk (\S+)`, "wrk", "-v"))
	row("h2load", saidBy(`nghttp2/(\S+)`, "h2load", "--version"))
	return b.String()
}

func inFile(name, pattern string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return "unknown"
	}
	return found(pattern, string(b))
}

// saidBy runs a program for what it says of its version; some exit with an error after that.
func saidBy(pattern, name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput()
	return found(pattern, string(out))
}

func found(pattern, text string) string {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	return "unknown"
}
