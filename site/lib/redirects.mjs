/** Former addresses of pages in the site, and the page, or part of a page, that has their text. */
export const REDIRECTS = new Map([
  ['/authzen', '/how-to/embed#authzen'],
  ['/backbone', '/how-to/several-instances#the-backbone'],
  ['/bad-commit', '/how-to/bad-commits#a-bad-commit-is-out-what-now'],
  ['/bundle-source', '/how-to/policy-source#a-bundle-server'],
  ['/callbacks', '/how-to/callbacks'],
  ['/catch-up', '/how-to/offline#catching-up'],
  ['/commands', '/reference/commands'],
  ['/configuration', '/reference/settings'],
  ['/containers', '/how-to/deploy#containers'],
  ['/data-sources', '/how-to/data-sources'],
  ['/decisions', '/how-to/embed'],
  ['/engine', '/how-to/engine'],
  ['/errors', '/reference/errors'],
  ['/getting-started', '/start/quick-start'],
  ['/glossary', '/start/concepts'],
  ['/health', '/reference/states'],
  ['/http-api', '/reference/http-api'],
  ['/install', '/how-to/deploy'],
  ['/instances', '/how-to/several-instances'],
  ['/isolation', '/why/limits#one-slow-part-holds-up-no-other'],
  ['/kubernetes', '/how-to/kubernetes'],
  ['/kubernetes-sidecars', '/how-to/kubernetes#forty-sidecars-one-story'],
  ['/observability', '/how-to/metrics-and-traces'],
  ['/offline', '/how-to/offline'],
  ['/opal-compatibility', '/reference/opal-compatibility'],
  ['/opal-migration', '/start/coming-from-opal'],
  ['/operations', '/how-to/operate'],
  ['/policy-gate', '/how-to/bad-commits'],
  ['/production', '/how-to/deploy#production-check-list'],
  ['/pubsub', '/reference/wire-protocol'],
  ['/security', '/how-to/secure'],
  ['/sizing', '/why/limits#memory'],
  ['/systemd', '/how-to/deploy#systemd'],
  ['/tls', '/how-to/secure#tls-and-proxies'],
  ['/troubleshooting', '/how-to/troubleshoot'],
  ['/ui', '/how-to/see-the-fleet#the-live-page'],
  ['/upgrade', '/how-to/operate#versions-and-upgrades'],
  ['/visibility', '/reference/fleet-api'],
  ['/webhooks', '/how-to/policy-source#webhooks'],
]);

/** The static files that redirect from former addresses, by name; `base` is the path of the site. */
export function redirectFiles(base = '/') {
  return new Map([...REDIRECTS].map(([from, to]) => [`${from.slice(1)}.html`, redirectPage(base + to.slice(1))]));
}

function redirectPage(url) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="${url}">
<meta http-equiv="refresh" content="0; url=${url}">
<p>This page has moved: <a href="${url}">${url}</a></p>
</html>
`;
}
