import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RestFigures } from './rest-figures.js';

test('durations are counted as OPA counts them', () => {
  const figures = new RestFigures();
  for (const seconds of [0.0000005, 0.0003, 0.0005, 3]) figures.observe(200, 'v1/data', 'POST', seconds);
  figures.observe(401, 'authz', 'PUT', 0.00001);
  const text = figures.text();
  const labels = 'code="200",handler="v1/data",method="post"';
  for (const line of [
    '# TYPE http_request_duration_seconds histogram',
    `http_request_duration_seconds_bucket{${labels},le="1e-06"} 1`,
    `http_request_duration_seconds_bucket{${labels},le="0.0005"} 3`,
    `http_request_duration_seconds_bucket{${labels},le="1"} 3`,
    `http_request_duration_seconds_bucket{${labels},le="+Inf"} 4`,
    `http_request_duration_seconds_count{${labels}} 4`,
    'http_request_duration_seconds_count{code="401",handler="authz",method="put"} 1',
  ])
    assert(text.split('\n').includes(line), line);
});
