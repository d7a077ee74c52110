import type { Scenario } from '../lib/scenario.js';
import { bundleScenario } from './bundle.js';
import { clientStartModulesScenario } from './client-start-modules.js';
import { decisionsScenario } from './decisions.js';
import { deletedEntriesScenario } from './deleted-entries.js';
import { deltaScenario } from './delta.js';
import { fanOutScenario, idleSubscribersScenario } from './fan-out.js';
import { largeDocumentScenario } from './large-document.js';
import { liveEntriesScenario } from './live-entries.js';
import { longRunScenario } from './long-run.js';
import { manyPackagesScenario } from './many-packages.js';
import { manySubscribersScenario } from './many-subscribers.js';
import { manyUpdatesScenario } from './many-updates.js';
import { policyChangeScenario } from './policy-change.js';
import { presenceScenario } from './presence.js';
import { publishToReadableScenario } from './publish-to-readable.js';
import { publishWhileBusyScenario } from './publish-while-busy.js';
import { reconnectScenario } from './reconnect.js';
import { refreshedSourceScenario } from './refreshed-source.js';
import { soakScenario } from './soak.js';
import { stalledSubscriberScenario } from './stalled-subscriber.js';
import { startScenario } from './start.js';
import { startEntriesScenario } from './start-entries.js';
import { tenantsScenario } from './tenants.js';
import { uiRowsScenario } from './ui-rows.js';
import { webhookScenario } from './webhook.js';

/** All scenarios, in the order in which they run. */
export const SCENARIOS: readonly Scenario[] = [
  publishToReadableScenario,
  publishWhileBusyScenario,
  fanOutScenario,
  idleSubscribersScenario,
  stalledSubscriberScenario,
  manyUpdatesScenario,
  bundleScenario,
  deltaScenario,
  webhookScenario,
  clientStartModulesScenario,
  startScenario,
  largeDocumentScenario,
  refreshedSourceScenario,
  tenantsScenario,
  manySubscribersScenario,
  reconnectScenario,
  liveEntriesScenario,
  presenceScenario,
  startEntriesScenario,
  deletedEntriesScenario,
  decisionsScenario,
  policyChangeScenario,
  manyPackagesScenario,
  soakScenario,
  longRunScenario,
  uiRowsScenario,
];
