/** What `/` shows: what is here. No data, so it needs no token. */
export const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Waybill relay</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
code { font-size: 0.95em; }
li { margin: 0.3rem 0; }
</style>
</head>
<body>
<h1>Waybill relay</h1>
<p>This process delivers the events of a transactional outbox. It answers here:</p>
<ul>
<li><a href="/livez"><code>/livez</code></a>: fails only when a restart would help</li>
<li><a href="/readyz"><code>/readyz</code></a>: not ready when due work exists and nothing moves, with the reason</li>
<li><a href="/metrics"><code>/metrics</code></a>: for Prometheus</li>
<li><a href="/api/v1/status"><code>/api/v1/status</code></a>: counts, relays, destinations</li>
<li><a href="/api/v1/relays"><code>/api/v1/relays</code></a>: live relays and their buckets</li>
<li><a href="/api/v1/events"><code>/api/v1/events</code></a>: events in order</li>
<li><a href="/api/v1/dead-letters"><code>/api/v1/dead-letters</code></a>: what could not be delivered, and why</li>
</ul>
<p>Where a token is configured, everything but the first two needs the header <code>Authorization: Bearer …</code>.</p>
</body>
</html>
`
