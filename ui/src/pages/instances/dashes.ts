/** Lines are told apart by their dashes first: colours repeat. */
export const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2], [10, 3, 2, 3], [14, 4], [4, 6]];
