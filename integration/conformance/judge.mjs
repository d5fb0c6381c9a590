// Prints what the suite itself makes of results: one object per test, in the suite's order.
// Arguments: root of the suite, path of its judge below the root, file with the client's results.
import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const [root, judge, file] = process.argv.slice(2)
const load = name => import(pathToFileURL(path.join(root, name)))

const { determineTestResult } = await load(judge)
const suites = (await load('tests/index.mjs')).default
const counted = new Set(suites)
// The npm edition's client runs this one as well, but the suite does not count it.
const surrogate = 'tests/surrogate-control.mjs'
if (fs.existsSync(path.join(root, surrogate))) {
  const extra = (await load(surrogate)).default
  if (!suites.some(s => s.id === extra.id)) suites.push(extra)
}

const results = JSON.parse(fs.readFileSync(file, 'utf8'))
const out = []
for (const suite of suites) {
  for (const test of suite.tests) {
    if (test.browser_only === true || !(test.id in results)) continue
    out.push({
      id: test.id,
      name: test.name,
      area: suite.name,
      kind: test.kind || 'required',
      counted: counted.has(suite),
      symbol: determineTestResult(suites, test.id, results)[2],
      message: Array.isArray(results[test.id]) ? results[test.id].join(': ') : ''
    })
  }
}
console.log(JSON.stringify(out))
