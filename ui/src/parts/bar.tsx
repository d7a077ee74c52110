/** Clients by how far they are; what is left of `total` is not told. */
export interface BarCounts {
  readonly total: number;
  /** They hold it. */
  readonly held: number;
  /** They know of it. */
  readonly told: number;
  readonly away: number;
  readonly unsaid: number;
  /** It fails there, and is tried again. */
  readonly failing: number;
  readonly refused: number;
}

/** Counts of `summary.policy.counts` or `summary.data.counts`, for a bar. */
export function barCounts(counts: Readonly<Record<string, number>>): BarCounts {
  return {
    total: sum(counts) - (counts.none ?? 0),
    held: counts.acknowledged ?? counts.at_head ?? 0,
    told: counts.told ?? counts.behind ?? 0,
    away: counts.away ?? 0,
    unsaid: counts.does_not_say ?? 0,
    failing: counts.failing ?? 0,
    refused: counts.refused ?? counts.blocked ?? 0,
  };
}

/** Those that will not come, in the order of the bar. */
const TAIL = ['away', 'unsaid', 'failing', 'refused'] as const;

interface BarProps {
  readonly counts: BarCounts;
  /** What it shows, for those who do not see it. */
  readonly label: string;
  readonly thin?: boolean;
}

/**
 * Two layers from the left, told below held; at the right end those who will not come: away,
 * without a word, failing, refused.
 */
export function Bar({ counts, label, thin = false }: BarProps) {
  const share = (clients: number): { width: string } => ({
    width: `${(100 * clients) / Math.max(1, counts.total)}%`,
  });
  return (
    <div class={thin ? 'bar thin' : 'bar'} role="img" aria-label={label}>
      <i class="told" style={share(counts.held + counts.told)} />
      <i class="held" style={share(counts.held)} />
      <div class="tail">
        {TAIL.map((name) => counts[name] > 0 && <i key={name} class={name} style={share(counts[name])} />)}
      </div>
    </div>
  );
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}
