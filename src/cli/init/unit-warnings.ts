import { isAddress } from './plan.js';

/** What the units do not see (`ProtectHome=`, `PrivateTmp=`), whoever may read it. */
const HIDDEN = ['/home', '/root', '/run/user', '/tmp', '/var/tmp'] as const;

/** What the services need, by absolute paths that are no links. */
export interface UnitNeeds {
  /** Node, as the units start it. */
  readonly node: string;
  readonly packageFolder: string;
  /** As in the plan. */
  readonly repository: string;
}

/** What keeps the units from starting or from reading the repository, each with what to do. */
export function unitWarnings({ node, packageFolder, repository }: UnitNeeds): string[] {
  const warnings: string[] = [];
  const again = 'then run init again with --force';
  if (hiddenIn(node) !== undefined) {
    warnings.push(
      `${unseen(`the Node of the units, ${node},`, node)} and will not start. Install a Node for the whole machine, such as that of the system's packages, and PolicySync with it; ${again}.`,
    );
  } else if (hiddenIn(packageFolder) !== undefined) {
    warnings.push(
      `${unseen(`the package of the units, ${packageFolder},`, packageFolder)} and will not start. Install it with \`sudo npm install --global <package file>\`; ${again}.`,
    );
  }
  const path = repository.replace(/^file:\/\/(?:localhost)?(?=\/)/i, '');
  if (!isAddress(path) && hiddenIn(path) !== undefined) {
    warnings.push(
      `${unseen(`the repository, ${path},`, path)}. Move it, for example below /srv, or give --repository a URL; ${again}.`,
    );
  }
  return warnings;
}

function hiddenIn(path: string): string | undefined {
  return HIDDEN.find((folder) => path === folder || path.startsWith(`${folder}/`));
}

function unseen(what: string, path: string): string {
  return `${what} is in ${hiddenIn(path)}, which the services do not see (ProtectHome=, PrivateTmp=)`;
}
