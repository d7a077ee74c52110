import { backboneContract } from '../support/backbone-contract.js';

await backboneContract('Redis', {
  weak: {
    lines: ['appendfsync everysec', 'maxmemory-policy allkeys-lru', 'user default off'],
    reason: /appendfsync is everysec, not always, maxmemory-policy is allkeys-lru, not noeviction, the user "default"/,
  },
});
