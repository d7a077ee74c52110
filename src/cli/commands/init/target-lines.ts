import { shellWord } from '../../../lib/run/shell-word.js';
import { packageFolder, packageVersion } from '../../../lib/run/version.js';
import type { Plan } from './plan.js';

/** The user of the images, for files that root has written. */
export const IMAGE_USER = 10_001;
/** The files of `--kubernetes`. */
export const KUBERNETES_FILES = {
  values: 'kubernetes-values.yaml',
  secrets: 'secrets/kubernetes-secrets.yaml',
} as const;
const IMAGES = ['server', 'client'] as const;

/** How the chart of this package is installed with what `init` wrote, in its folder. */
export function helmCommands(hasSecrets: boolean): string[] {
  return [
    ...(hasSecrets ? [`kubectl apply -f ${KUBERNETES_FILES.secrets}`] : []),
    `helm install policysync ${shellWord(`${packageFolder()}/deploy/helm/policysync`)} -f ${KUBERNETES_FILES.values}`,
  ];
}

/**
 * What `init` prints of the files for Compose, Kubernetes and systemd. `isRoot`: root owns the
 * files.
 */
export function targetLines({ targets, registry, mode, sshKey }: Plan, { isRoot }: { isRoot: boolean }): string[] {
  const [compose, kubernetes] = [targets.includes('compose'), targets.includes('kubernetes')];
  const prefix = registry === undefined ? '' : `${registry}/`;
  const names = IMAGES.map((image) => `${prefix}policysync/${image}:${packageVersion()}`);
  const builds = IMAGES.map(
    (image, index) => `docker build -f deploy/container/${image}.Dockerfile -t ${names[index]} .`,
  );
  const pushes = registry === undefined ? [] : names.map((name) => `docker push ${name}`);
  return [
    ...(compose || kubernetes
      ? block('Images that nobody has pushed are built in a checkout of PolicySync:', [...builds, ...pushes])
      : []),
    ...(compose
      ? block('With Compose:', [
          ...(isRoot ? [`chown -R ${IMAGE_USER}:${IMAGE_USER} ${mode === 'network' ? 'secrets state' : 'state'}`] : []),
          'docker compose up --detach',
        ])
      : []),
    ...(kubernetes
      ? block(
          registry === undefined
            ? `On Kubernetes, with the registry of the images in ${KUBERNETES_FILES.values}:`
            : 'On Kubernetes:',
          helmCommands(mode === 'network' || sshKey !== undefined),
        )
      : []),
    ...(targets.includes('systemd') ? block('With systemd, as root:', ['sh systemd/install.sh server']) : []),
  ];
}

function block(title: string, commands: readonly string[]): string[] {
  return ['', title, ...commands.map((command) => `  ${command}`)];
}
