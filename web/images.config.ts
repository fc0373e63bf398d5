// The README's pictures, taken by `npm run images`.
import config from "./playwright.config.js";

export default { ...config, testMatch: "images.ts" };
