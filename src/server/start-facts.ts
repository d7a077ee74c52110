import { resolve } from 'node:path';
import { isLoopback } from '../lib/net/proxy.js';
import type { StartFact } from '../lib/observe/start-lines.js';
import type { Durability } from './log/log-store.js';
import type { ServerOptions } from './options.js';
import { bundleLocation } from './policy/source/bundle-api-config.js';
import { parseGitRemote } from './policy/source/git-remote.js';

/** The facts that a server logs at its start. */
export function serverStartFacts(
  settings: ServerOptions,
  { version, nodeVersion }: { readonly version: string; readonly nodeVersion: string },
): StartFact[] {
  const authentication = settings.authPublicKey === undefined ? 'off' : 'on';
  return [
    { about: 'version', text: `${version}, Node ${nodeVersion}`, fields: { version, node: nodeVersion } },
    policyFact(settings),
    {
      about: 'authentication',
      text: authentication === 'on' ? 'on' : `off, ${openTo(settings.host)}`,
      fields: { authentication },
    },
  ];
}

/** Who may do everything while authentication is off. */
function openTo(host: string): string {
  return isLoopback(host)
    ? 'and only this machine reaches the API'
    : 'there are no keys: whoever reaches the server may do everything';
}

/** Where the update log is, who shares it, and how durable an acknowledged update is. */
export function logFact(
  settings: ServerOptions,
  { epoch, head, durability }: { readonly epoch: string; readonly head: number; readonly durability: Durability },
): StartFact {
  const uri = settings.broadcastUri;
  const place = uri === undefined ? resolve(settings.stateDir) : uri.place;
  const shared = uri === undefined ? 'of this server alone' : 'shared by all servers with this backbone';
  const trust = durability.level === 'durable' ? 'durable' : `WEAK durability (${durability.reason})`;
  return {
    about: 'update log',
    text: `${place}, ${shared}, ${trust}`,
    fields: { update_log: place, backbone: uri !== undefined, durability: durability.level, epoch, head },
  };
}

/** Warnings for the operator, each with a remedy. */
export function startWarnings(settings: ServerOptions): string[] {
  const { authMasterToken, authPublicKey, policySourceType, policyRepoUrl } = settings;
  const warnings: string[] = [];
  if (authMasterToken !== undefined && authPublicKey === undefined) {
    warnings.push(
      'SYNC_AUTH_MASTER_TOKEN is set, and there are no keys: authentication is off all the same. Set SYNC_AUTH_PRIVATE_KEY and SYNC_AUTH_PUBLIC_KEY',
    );
  }
  if (policySourceType === 'API' || policyRepoUrl === undefined) return warnings;
  const polls = settings.policyRepoPollingIntervalMs > 0;
  // Who polls and listens for this machine alone waits for no webhook.
  if (settings.policyRepoWebhookSecret === undefined && !(polls && isLoopback(settings.host))) {
    warnings.push(
      polls
        ? 'SYNC_POLICY_REPO_WEBHOOK_SECRET is not set: whoever reaches POST /webhook can have the repository fetched'
        : 'SYNC_POLICY_REPO_POLLING_INTERVAL is 0 and SYNC_POLICY_REPO_WEBHOOK_SECRET is not set: a commit arrives only when somebody calls POST /webhook, and whoever reaches it may. Set one of the two',
    );
  }
  return warnings;
}

function policyFact(settings: ServerOptions): StartFact {
  const { policySourceType, policyRepoUrl, policyRepoBranch: branch } = settings;
  if (policySourceType === 'API') {
    const { display } = bundleLocation(settings);
    const how = followed(settings, 'a webhook with a token of a datasource');
    return { about: 'policy', text: `${display}, ${how}`, fields: { policy_source: display } };
  }
  if (policyRepoUrl === undefined) return { about: 'policy', text: 'none, SYNC_POLICY_REPO_URL is not set' };
  const { display } = parseGitRemote(policyRepoUrl);
  const how = followed(
    settings,
    settings.policyRepoWebhookSecret === undefined ? 'any webhook' : 'a webhook with the secret',
  );
  return {
    about: 'policy',
    text: `${display}, ${branch === undefined ? 'its default branch' : `branch ${branch}`}, ${how}`,
    fields: { policy_source: display, branch, polling_interval_ms: settings.policyRepoPollingIntervalMs },
  };
}

function followed({ policyRepoPollingIntervalMs: pollMs }: ServerOptions, webhook: string): string {
  return pollMs > 0 ? `checked every ${pollMs / 1000} s and with ${webhook}` : `checked with ${webhook}, not polled`;
}
