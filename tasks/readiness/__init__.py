"""Whether a device is ready to boot an image: one condition for each requirement, and a verdict. Changes nothing."""
