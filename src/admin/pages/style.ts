/** The one style sheet of all pages; the Content-Security-Policy names its hash, and allows nothing else. */
export const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --card: #f6f8fa; --text: #1b1f24; --muted: #57606a; --line: #d0d7de; --link: #0550ae;
  --good: #1a7f37; --open: #8a5a00; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0d1117; --card: #161b22; --text: #e6edf3; --muted: #9da7b3; --line: #3d444d; --link: #79c0ff;
    --good: #56d364; --open: #e3b341; --bad: #ff8f87;
  }
}
* { box-sizing: border-box; }
html { font: 100%/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); }
body { max-width: 76rem; margin: 0 auto; padding: 0 1rem 3rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 1.5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 0 0 0.75rem; }
h3 { font-size: 1rem; margin: 0; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code, pre, .mono { font-family: ui-monospace, monospace; font-size: 0.92em; }
dl { margin: 0; }
dd { margin: 0; }
ul, ol { margin: 0; padding: 0; list-style: none; }
ul.plain { padding-left: 1.2rem; list-style: disc; }
ul.plain li { margin: 0.35rem 0; }
summary { cursor: pointer; }
.muted, time, .age { color: var(--muted); font-size: 0.875rem; }
.good { color: var(--good); } .open { color: var(--open); } .bad { color: var(--bad); } .quiet { color: var(--muted); }

header { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 1.5rem; padding: 0.75rem 0;
  border-bottom: 1px solid var(--line); }
header nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; }
header nav a { display: inline-block; padding: 0.25rem 0; }
header nav a[aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
header form { margin-left: auto; }

form.ask { display: flex; flex-wrap: wrap; align-items: end; gap: 0.75rem 1rem; margin-bottom: 1.5rem; }
form.ask > div { display: flex; flex-direction: column; gap: 0.25rem; flex: 1 1 9rem; min-width: 0; }
form.ask > .wide { flex-grow: 3; flex-basis: 14rem; }
form.ask > .check { flex: 0 0 auto; flex-direction: row; align-items: center; gap: 0.5rem; min-height: 2.75rem; }
label { font-weight: 600; font-size: 0.875rem; }
input, button { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--muted);
  border-radius: 0.375rem; padding: 0.5rem 0.75rem; min-height: 2.75rem; max-width: 100%; min-width: 0; }
input::placeholder { color: var(--muted); opacity: 1; }
input[type=checkbox] { min-height: 0; width: 1.15rem; height: 1.15rem; }
button { cursor: pointer; font-weight: 600; background: var(--card); }
button.go { color: var(--back); background: var(--link); border-color: var(--link); }
header button { min-height: 0; padding: 0.25rem 0.75rem; font-weight: 400; }

.card { border: 1px solid var(--line); border-radius: 0.5rem; background: var(--card); padding: 1rem;
  margin-bottom: 1.25rem; min-width: 0; }
.card > :last-child { margin-bottom: 0; }
.error { border-left: 0.375rem solid var(--bad); }
.verdict { border-left: 0.375rem solid var(--muted); }
.verdict.is-good { border-left-color: var(--good); } .verdict.is-open { border-left-color: var(--open); }
.verdict.is-bad { border-left-color: var(--bad); }
.state { font-size: 1.35rem; font-weight: 700; line-height: 1.25; margin: 0 0 0.75rem; }
.pairs { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.125rem; }
.pairs dt { color: var(--muted); font-size: 0.875rem; }
.pairs dd { margin-bottom: 0.5rem; }
.chips { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; }
pre { margin: 0.125rem 0 0; padding: 0.625rem 0.75rem; border: 1px solid var(--line); border-radius: 0.375rem;
  background: var(--back); white-space: pre-wrap; user-select: all; }

.timeline > li { position: relative; padding: 0 0 1rem 1.9rem; }
.timeline > li::before { content: ''; position: absolute; left: 0.56rem; top: 1.4rem; bottom: -0.15rem;
  border-left: 2px solid var(--line); }
.timeline > li:last-child { padding-bottom: 0; }
.timeline > li:last-child::before { display: none; }
.timeline .mark { position: absolute; left: 0; top: 0.1rem; width: 1.25rem; text-align: center; font-weight: 700; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 16rem), 1fr)); gap: 1rem; }
.side > li { border: 1px solid var(--line); border-radius: 0.375rem; background: var(--back); padding: 0.75rem;
  min-width: 0; }
.side .pairs { grid-template-columns: 6rem minmax(0, 1fr); gap: 0.125rem 0.5rem; font-size: 0.875rem; }
.side .pairs dt { font-size: inherit; }
.side .pairs dd { margin: 0; }
.figure { font-size: 1.15rem; font-weight: 700; }
.gaps > li, .answer { margin-bottom: 0.5rem; }
.gaps > li:last-child, .answer:last-child { margin-bottom: 0; }
.symptom { margin-top: 1rem; }
table { border-collapse: collapse; width: 100%; max-width: 30rem; }
th, td { text-align: left; padding: 0.3rem 0.5rem 0.3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.count, th.count { text-align: right; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.25rem; }

@media (min-width: 40rem) {
  .card > .pairs { grid-template-columns: 8.5rem minmax(0, 1fr); gap: 0.375rem 1rem; }
  .card > .pairs dt { font-size: inherit; }
  .card > .pairs dd { margin: 0; }
}
@media (min-width: 64rem) {
  .columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 1.25rem; align-items: start; }
}
@media print { header, form { display: none; } }
`
