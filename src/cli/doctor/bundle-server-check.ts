import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { childEnv } from '../../lib/child-env.js';
import { silentLogger } from '../../lib/log.js';
import type { ServerOptions } from '../../server/options.js';
import { bundleLocation } from '../../server/source/bundle-api-config.js';
import { createBundleSource } from '../../server/source/bundle-api-source.js';
import { bundleVerification } from '../../server/source/bundle-signature.js';
import { okFinding } from '../findings.js';
import type { Check } from './checks.js';

/** Reads the bundle of the bundle server once, as the server does, into a folder that is removed. */
export function bundleServerCheck(
  settings: ServerOptions,
  { env, limitMs }: { env: NodeJS.ProcessEnv; limitMs: number },
): Check {
  const [id, subject] = ['policy_bundle', 'policy bundle'];
  return {
    ...{ id, subject },
    remedy: 'Let this machine reach SYNC_POLICY_BUNDLE_URL, or give it more time with --timeout.',
    run: async (signal) => {
      const location = bundleLocation(settings);
      const folder = await mkdtemp(join(tmpdir(), 'policysync-doctor-'));
      try {
        const source = createBundleSource(
          {
            location,
            repoPath: join(folder, 'bundle'),
            isOwnFolder: true,
            limitBytes: settings.policyBundleLimitBytes,
            unpackedBytes: settings.policyBundleLimitUnpackedBytes,
            entries: settings.policyBundleLimitEntries,
            verification: bundleVerification(settings),
            fetchTimeoutMs: limitMs,
            env: childEnv(env, 'git', settings.policyRepoEnv),
          },
          { log: silentLogger() },
        );
        const commit = await source.fetch(signal);
        return [okFinding(id, subject, `${location.display} is a bundle that can be served (${commit.slice(0, 10)})`)];
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}
