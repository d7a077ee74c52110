import * as z from 'zod';
import type { AuthzenOffer } from './settings.js';

/** Default paths of the endpoints (section 10.1). */
export const AUTHZEN_PATHS = {
  configuration: '/.well-known/authzen-configuration',
  evaluation: '/access/v1/evaluation',
  evaluations: '/access/v1/evaluations',
  search: {
    subject: '/access/v1/search/subject',
    resource: '/access/v1/search/resource',
    action: '/access/v1/search/action',
  },
} as const;

/** `GET /.well-known/authzen-configuration` (section 9). */
export const authzenConfiguration = z.object({
  policy_decision_point: z.string(),
  access_evaluation_endpoint: z.string(),
  access_evaluations_endpoint: z.string(),
  search_subject_endpoint: z.string().optional(),
  search_resource_endpoint: z.string().optional(),
  search_action_endpoint: z.string().optional(),
});

/** The configuration document at an address: an endpoint that it does not name is not offered. */
export function configurationOf(
  base: string,
  { searches }: Pick<AuthzenOffer, 'searches'>,
): z.infer<typeof authzenConfiguration> {
  const { search } = AUTHZEN_PATHS;
  return {
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}${AUTHZEN_PATHS.evaluation}`,
    access_evaluations_endpoint: `${base}${AUTHZEN_PATHS.evaluations}`,
    ...(searches.has('subject') && { search_subject_endpoint: `${base}${search.subject}` }),
    ...(searches.has('resource') && { search_resource_endpoint: `${base}${search.resource}` }),
    ...(searches.has('action') && { search_action_endpoint: `${base}${search.action}` }),
  };
}
