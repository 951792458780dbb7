// Where answers come from: the server. In a report that is one file, report_source.js stands in the place of this module.

/** Whether there is a server, which can be asked again and told what to do. */
export const isLive = true;

/** What a report says beside the server's answers; here there is none. */
export const report = null;

const BASE = "/v1/private";

/** Where an image of a sample is shown from, by its sha256. */
export const imageAt = (digest) => `${BASE}/files/${digest}`;

/** Where a browser finds a path, for what it keeps as a file. */
export const addressOf = (path) => BASE + path;

/** Ask for a path; a response as of `fetch`. */
export const request = (path, options) => fetch(BASE + path, options);
