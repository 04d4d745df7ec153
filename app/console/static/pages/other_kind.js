// The page of a kind that has none of its own.

import { showArtifact } from "../artifact.js";
import { page } from "../dom.js";

page(showArtifact);
