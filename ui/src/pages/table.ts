import type { ComponentType } from 'preact';
import type { PageProps } from '../app';
import type { PageName } from '../router';
import { ChangePage } from './change/index';
import { ChangesPage } from './changes/index';
import { ClientPage } from './client/index';
import { DataPage } from './data/index';
import { FleetPage } from './fleet/index';
import { InstancesPage } from './instances/index';
import { PolicyPage } from './policy/index';

/** The pages by the name that the router gives them; signing in stands outside of the frame. */
export const PAGES: Readonly<Record<Exclude<PageName, 'sign-in'>, ComponentType<PageProps>>> = {
  fleet: FleetPage,
  client: ClientPage,
  changes: ChangesPage,
  change: ChangePage,
  data: DataPage,
  policy: PolicyPage,
  instances: InstancesPage,
};
