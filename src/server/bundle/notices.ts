import type { OpalPolicyNotice } from '../../wire/bundle.js';
import { opalPolicyTopic, policyTopic } from '../../wire/topics.js';
import type { PolicyHeadChange } from '../source/source.js';

/** One publication: the same data on several topics. */
export interface PolicyNotice {
  topics: string[];
  /** The data, as JSON text. */
  text: string;
}

/**
 * What a new head is announced with: the commit hash on the spec's topic of each changed directory (`default:policy:a/b`), and
 * OPAL's object on OPAL's topics (`policy:a/b`; protocol-facts 1.7). A client subscribes to one of the two.
 */
export function policyNotices(change: PolicyHeadChange): PolicyNotice[] {
  const directories = change.changedDirectories;
  const opal: OpalPolicyNotice = {
    old_policy_hash: change.oldHash,
    new_policy_hash: change.hash,
    changed_directories: [...directories],
  };
  return [
    { topics: directories.map((directory) => policyTopic(directory)), text: JSON.stringify(change.hash) },
    { topics: directories.map((directory) => opalPolicyTopic(directory)), text: JSON.stringify(opal) },
  ];
}
