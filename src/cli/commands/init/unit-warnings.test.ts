import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unitWarnings } from './init.js';

const SEEN = {
  node: '/usr/bin/node',
  packageFolder: '/usr/local/lib/node_modules/policysync',
  repository: 'https://git.example/p.git',
};

describe('the warnings of init about units', () => {
  it('are none where the services see all they need', () => {
    assert.deepEqual(unitWarnings(SEEN), []);
    for (const repository of ['/srv/policies', '/homework/p', 'git@host:home/p', 'ssh://h/home/p']) {
      assert.deepEqual(unitWarnings({ ...SEEN, repository }), [], repository);
    }
  });

  it('name a package in the cache of npx or in a home folder, and how to install it', () => {
    for (const packageFolder of ['/root/.npm/_npx/1/node_modules/policysync', '/home/me/checkout', '/tmp/x']) {
      const [warning = '', ...rest] = unitWarnings({ ...SEEN, packageFolder });
      assert.deepEqual(rest, []);
      assert.ok(warning.includes(packageFolder) && warning.includes('sudo npm install --global'), warning);
    }
  });

  it('name a Node of one user, which leaves nothing to say of the package', () => {
    const node = '/home/me/.nvm/versions/node/v24.0.0/bin/node';
    const [warning = '', ...rest] = unitWarnings({ ...SEEN, node, packageFolder: '/home/me/x' });
    assert.deepEqual(rest, []);
    assert.match(
      warning,
      /^the Node of the units, \/home\/me\/\.nvm.* is in \/home, .*Install a Node for the whole machine/,
    );
  });

  it('name a repository that the services do not see', () => {
    for (const repository of ['/home/me/policies', 'file:///home/me/policies', 'file://localhost/home/me/policies']) {
      assert.match(unitWarnings({ ...SEEN, repository }).join(), /the repository, \/home\/me\/policies, is in \/home/);
    }
  });
});
